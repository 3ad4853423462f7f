"""What every row of the comparison trains: images, division, network, batches and epochs (read by peers.py and its runners).

A runner is a script that the interpreter of its framework starts with the folder of this work. It prints a line
for every round, with the seconds since the last one. Of fedshift it imports the network alone.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

sys.path.insert(0, str(Path(__file__).parents[2] / "src"))
from fedshift.models.hfedf_cnn import HFedFCNN

MARK = "round:"
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@dataclass(frozen=True)
class Work:
    """hFedF's client work: 2 epochs of Adam on batches of 64, in fp32, without augmentation."""

    folder: Path
    clients: dict[str, tuple[list[int], list[int]]]  # by domain: positions trained on, and validated on
    test: list[int]  # positions of the held-out domain
    classes: int
    px: int
    rounds: int
    batch: int = 64
    epochs: int = 2
    lr: float = 0.001
    weight_decay: float = 0.0001

    def write(self) -> None:
        text = json.dumps({**asdict(self), "folder": ""})
        (self.folder / "work.json").write_text(text)

    @classmethod
    def read(cls, folder: Path) -> Work:
        return cls(**{**json.loads((folder / "work.json").read_text()), "folder": folder})

    def model(self) -> Logits:
        """The network, newly initialised (Ray cannot send a function that names `classes`: see of_flower.py)."""
        return Logits(self.classes, self.px)

    @property
    def tested(self) -> dict[str, list[int]]:
        """The positions on which the global model is evaluated after every round, by domain."""
        return {**{name: validation for name, (_, validation) in self.clients.items()}, "held out": self.test}


class Images(Dataset[tuple[Tensor, int]]):
    """All images, decoded and in memory: an item is a normalised image [3, px, px] and its label."""

    def __init__(self, work: Work) -> None:
        self.pixels = torch.from_numpy(np.load(work.folder / "images.npy"))
        self.labels = np.load(work.folder / "labels.npy").tolist()
        self.mean, self.deviation = (torch.tensor(values)[:, None, None] for values in (MEAN, DEVIATION))

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, position: int) -> tuple[Tensor, int]:
        return (self.pixels[position] / 255 - self.mean) / self.deviation, self.labels[position]


class Logits(nn.Module):
    """hFedF's network as frameworks expect one: its output is a tensor [B, classes]."""

    def __init__(self, classes: int, px: int) -> None:
        super().__init__()
        self.network = HFedFCNN(classes, px)

    def forward(self, x: Tensor) -> Tensor:
        return self.network(x).logits


class Clock:
    """Prints a line at the end of every round; the first call is the start."""

    def __init__(self) -> None:
        self.last: float | None = None

    def round(self, accuracies: dict[str, float]) -> None:
        now = time.perf_counter()
        if self.last is not None:
            print(MARK, json.dumps({"seconds": now - self.last, "accuracies": accuracies}), flush=True)
        self.last = now


@torch.no_grad()
def evaluate(model: nn.Module, work: Work, images: Images) -> dict[str, float]:
    """The accuracy on every tested set, as somebody would write it who has a model and a data set."""
    model.eval()
    accuracies = {}
    for name, positions in work.tested.items():
        loader = torch.utils.data.DataLoader(torch.utils.data.Subset(images, positions), batch_size=250)
        correct = sum(int((model(x).argmax(1) == y).sum()) for x, y in loader)
        accuracies[name] = correct / len(positions)
    return accuracies


def start() -> tuple[Work, Images, Clock]:
    """The work of the folder that the command line names, on one thread."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    work = Work.read(Path(sys.argv[1]))
    return work, Images(work), Clock()
