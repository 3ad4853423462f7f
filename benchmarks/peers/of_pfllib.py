"""PFLlib: its server and client of FedAvg, from the user's checkout (its folder `system` on PYTHONPATH).

Its classes are taken as they are, but for two things: the optimiser (it has SGD alone) is Adam, and after each
round the global model is evaluated on the same sets as everybody's, besides its own evaluation.
"""

from __future__ import annotations

import os
from types import SimpleNamespace

import numpy as np
import torch
from flcore.clients.clientavg import clientAVG
from flcore.servers.serveravg import FedAvg
from work import Images, Work, evaluate, start


def export(work: Work, images: Images) -> None:
    """Write the clients' images as its own generators of data sets do, where its readers look for them."""
    for split in ("train", "test"):
        (work.folder / "dataset" / "work" / split).mkdir(parents=True, exist_ok=True)
    for k, parts in enumerate(work.clients.values()):
        for split, positions in zip(("train", "test"), parts, strict=True):
            x, y = zip(*(images[i] for i in positions), strict=True)
            data = {"x": torch.stack(x).numpy(), "y": np.array(y)}
            np.savez_compressed(work.folder / "dataset" / "work" / split / f"{k}.npz", data=data)


def main() -> None:
    """Train by FedAvg of PFLlib's classes."""
    work, images, clock = start()
    export(work, images)
    (work.folder / "system").mkdir(exist_ok=True)
    os.chdir(work.folder / "system")  # it reads ../dataset

    class Client(clientAVG):
        def __init__(
            self, args: object, id: int, train_samples: int, test_samples: int, **rest: object
        ) -> None:
            super().__init__(args, id, train_samples, test_samples, **rest)
            self.optimizer = torch.optim.Adam(
                self.model.parameters(), lr=work.lr, weight_decay=work.weight_decay
            )

    class Server(FedAvg):
        def set_clients(self, kind: type) -> None:
            super().set_clients(Client)

        def evaluate(self, acc: object = None, loss: object = None) -> None:
            super().evaluate(acc, loss)
            clock.round(evaluate(self.global_model, work, images))

        def save_results(self) -> None:
            pass

        def save_global_model(self) -> None:
            pass

    args = SimpleNamespace(
        device="cpu", dataset="work", num_classes=work.classes, global_rounds=work.rounds,
        local_epochs=work.epochs, batch_size=work.batch, local_learning_rate=work.lr,
        model=work.model(), num_clients=len(work.clients), join_ratio=1.0,
        random_join_ratio=False, algorithm="FedAvg", time_select=False, goal="work", time_threthold=10000,
        save_folder_name="items", top_cnt=100, auto_break=False, eval_gap=1, client_drop_rate=0.0,
        train_slow_rate=0.0, send_slow_rate=0.0, dlg_eval=False, dlg_gap=100, batch_num_per_client=2,
        num_new_clients=0, fine_tuning_epoch_new=0, learning_rate_decay=False, learning_rate_decay_gamma=0.99,
        few_shot=0,
    )  # fmt: skip
    Server(args, 0).train()


if __name__ == "__main__":
    main()
