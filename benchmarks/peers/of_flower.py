"""Flower: its simulation (Ray), one virtual client at a time on one core, FedAvg of its strategies.

Ray pickles `train` with every module below torch whose name the function's code contains, and `torch.classes` cannot
be pickled: so the word does not occur here. Flower goes on when clients fail; this stops.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from torch.nn import functional as F
from torch.utils.data import DataLoader, Subset
from work import Work, evaluate, start

client = ClientApp()
server = ServerApp()
FOLDER = sys.argv[1]


@client.train()
def train(message: Message, context: Context) -> Message:
    """A round of one client."""
    sys.argv[1:] = [str(context.run_config.get("folder", FOLDER))]
    work, images, _ = start()
    positions, _ = list(work.clients.values())[int(context.node_config["partition-id"])]
    model = work.model()
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    optimizer = torch.optim.Adam(model.parameters(), lr=work.lr, weight_decay=work.weight_decay)
    loader = DataLoader(Subset(images, positions), batch_size=work.batch, shuffle=True)
    model.train()
    for _ in range(work.epochs):
        for x, y in loader:
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
    content = {
        "arrays": ArrayRecord(model.state_dict()),
        "metrics": MetricRecord({"num-examples": len(positions)}),
    }
    return Message(content=RecordDict(content), reply_to=message)


class AllClients(FedAvg):
    """FedAvg that ends where a client failed: Flower would keep the old model, and call it a round."""

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        replies = list(replies)
        failed = [str(reply.error.reason) for reply in replies if reply.has_error()]
        if failed or len(replies) < self.min_train_nodes:
            print(
                f"round {server_round}: {len(replies)} replies, failed: {failed}", file=sys.stderr, flush=True
            )
            os._exit(1)  # an exception would be logged, and the process would end with 0
        return super().aggregate_train(server_round, replies)


@server.main()
def main(grid: Grid, context: Context) -> None:
    """All rounds."""
    work, images, clock = start()
    model = work.model()

    def after(number: int, arrays: ArrayRecord) -> MetricRecord:
        model.load_state_dict(arrays.to_torch_state_dict())
        accuracies = evaluate(model, work, images)
        clock.round(accuracies)
        return MetricRecord(accuracies)

    clients = len(work.clients)
    strategy = AllClients(fraction_evaluate=0.0, min_train_nodes=clients, min_available_nodes=clients)
    strategy.start(grid, ArrayRecord(model.state_dict()), num_rounds=work.rounds, evaluate_fn=after)


if __name__ == "__main__":
    from pathlib import Path

    resources = {"client_resources": {"num_cpus": 1, "num_gpus": 0.0}, "init_args": {"num_cpus": 1}}
    run_simulation(server, client, len(Work.read(Path(FOLDER)).clients), backend_config=resources)
