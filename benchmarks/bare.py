"""FedAvg as one would write it without a framework: the yardstick of round.py.

A plain module, one torch.optim.Adam per client and round, the average taken parameter by parameter. Of
fedshift it uses the network and the batched transforms alone. Images lie decoded in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch.nn import functional as F

from fedshift.data.augment import Augment, Evaluate
from fedshift.models.hfedf_cnn import HFedFCNN

EVALUATION_BATCH = 250


@dataclass(frozen=True)
class Recipe:
    """hFedF's protocol, but for the number of rounds and how often they are evaluated."""

    target: str
    px: int  # of the prepared images
    validation: float = 0.1
    input_px: int = 32
    normalise: str = "imagenet"
    augment: str = "domainbed"
    batch: int = 64
    epochs: int = 2
    lr: float = 0.001
    weight_decay: float = 0.0001
    bf16: bool = True  # else fp32


class Bare:
    """One client per source domain; `fused`: the kernel of Adam that updates a parameter in one pass."""

    def __init__(self, prepared: Path, recipe: Recipe, fused: bool) -> None:
        self.recipe, self.fused = recipe, fused
        index = pd.read_parquet(prepared / "index.parquet")
        self.pixels = torch.from_numpy(np.load(prepared / "images.npy"))
        self.labels = torch.from_numpy(index["label"].to_numpy("int64"))
        self.augment = Augment(recipe.augment, recipe.px, recipe.input_px, recipe.normalise)
        self.transform = Evaluate(recipe.px, recipe.input_px, recipe.normalise)
        self.rng = torch.Generator().manual_seed(0)
        torch.manual_seed(0)
        self.train: list[Tensor] = []
        self.held_out: dict[str, Tensor] = {}
        for domain in index["domain"].unique():
            rows = torch.from_numpy(np.flatnonzero(index["domain"] == domain))
            if domain == recipe.target:
                self.held_out[domain] = rows
                continue
            rows = rows[torch.randperm(len(rows), generator=self.rng)]
            cut = int(recipe.validation * len(rows))
            self.held_out[domain] = rows[:cut]
            self.train.append(rows[cut:])
        classes = index["label"].nunique()
        self.model = HFedFCNN(classes, recipe.input_px).to(memory_format=torch.channels_last)
        self.parameters = list(self.model.parameters())

    def rounds(self) -> Iterator[tuple[int, dict[str, float]] | None]:
        """Rounds without end. Yields None after a client's turn; with the last one's, the images that the round trained on
        and the average model's accuracy on every held-out set."""
        total = sum(len(rows) for rows in self.train)
        received = [parameter.detach().clone() for parameter in self.parameters]
        while True:
            average = [torch.zeros_like(parameter) for parameter in received]
            for client, rows in enumerate(self.train, 1):
                self._load(received)
                self._fit(rows)
                with torch.no_grad():
                    for mean, parameter in zip(average, self.parameters, strict=True):
                        mean.add_(parameter, alpha=len(rows) / total)
                if client < len(self.train):
                    yield None
            received = average
            self._load(received)
            scores = {name: self._score(rows)[0] for name, rows in self.held_out.items()}
            yield self.recipe.epochs * total, scores

    @torch.no_grad()
    def _load(self, values: list[Tensor]) -> None:
        for parameter, value in zip(self.parameters, values, strict=True):
            parameter.copy_(value)

    def _fit(self, rows: Tensor) -> float:
        recipe = self.recipe
        optimizer = torch.optim.Adam(
            self.parameters, lr=recipe.lr, weight_decay=recipe.weight_decay, fused=self.fused
        )
        self.model.train()
        running = torch.zeros(())
        for _ in range(recipe.epochs):
            for batch in rows[torch.randperm(len(rows), generator=self.rng)].split(recipe.batch):
                x = self.augment(self.pixels[batch], self.augment.draw(len(batch), self.rng))
                with torch.autocast("cpu", torch.bfloat16, enabled=recipe.bf16):
                    logits = self.model(x).logits
                loss = F.cross_entropy(logits.float(), self.labels[batch])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                running += loss.detach() * len(batch)
        return running.item() / (recipe.epochs * len(rows))

    @torch.no_grad()
    def _score(self, rows: Tensor) -> tuple[float, float]:
        """Accuracy and mean cross entropy."""
        self.model.eval()
        right, loss = torch.zeros(()), torch.zeros(())
        for batch in rows.split(EVALUATION_BATCH):
            with torch.autocast("cpu", torch.bfloat16, enabled=self.recipe.bf16):
                logits = self.model(self.transform(self.pixels[batch])).logits
            y = self.labels[batch]
            right += (logits.argmax(1) == y).sum()
            loss += F.cross_entropy(logits.float(), y, reduction="sum")
        return right.item() / len(rows), loss.item() / len(rows)
