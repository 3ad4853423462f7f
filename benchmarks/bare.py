"""FedAvg as one would write it without a framework: the yardstick of round.py.

A plain module, one torch.optim.Adam (or SGD) per client and round, the average taken tensor by tensor. Of
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

from fedshift.common.registry import get
from fedshift.data.augment import Augment, Evaluate

EVALUATION_BATCH = 250


@dataclass(frozen=True)
class Recipe:
    """A protocol, as far as a client and the average need it; by default hFedF's."""

    target: str | None
    px: int  # of the prepared images
    validation: float = 0.1  # of a domain's images
    input_px: int = 32
    normalise: str = "imagenet"
    augment: str = "domainbed"
    batch: int = 64
    epochs: int = 2
    lr: float = 0.001
    weight_decay: float = 0.0001
    bf16: bool = True  # else fp32
    test: float = 0.0  # of a domain's images
    model: str = "hfedf_cnn"
    optimizer: str = "adam"
    clip: float | None = None  # of the gradient's norm
    wrap: bool = False  # the last batch of an epoch is filled from its beginning
    each: int | None = None  # images in each part of a client at most


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
            validated, tested = (int(share * len(rows)) for share in (recipe.validation, recipe.test))
            parts = rows.tensor_split([validated, validated + tested])
            self.held_out[domain], test, train = (part[: recipe.each] for part in parts)
            if len(test):
                self.held_out[f"{domain}, test"] = test
            self.train.append(train)
        model = get("models", recipe.model)(index["label"].nunique(), recipe.input_px)
        self.model = model.to(memory_format=torch.channels_last)
        self.parameters = list(self.model.parameters())
        self.statistics = [buffer for buffer in self.model.buffers() if buffer.is_floating_point()]

    def rounds(self) -> Iterator[tuple[int, dict[str, float]] | None]:
        """Rounds without end. Yields None after a client's turn; with the last one's, the images that the round trained on
        and the average model's accuracy on every held-out set."""
        total, images = sum(len(rows) for rows in self.train), sum(map(self._images, self.train))
        state = [*self.parameters, *self.statistics]
        received = [tensor.detach().clone() for tensor in state]
        while True:
            average = [torch.zeros_like(tensor) for tensor in received]
            for client, rows in enumerate(self.train, 1):
                self._load(received)
                self._fit(rows)
                with torch.no_grad():
                    for mean, tensor in zip(average, state, strict=True):
                        mean.add_(tensor, alpha=len(rows) / total)
                if client < len(self.train):
                    yield None
            received = average
            self._load(received)
            scores = {name: self._score(rows)[0] for name, rows in self.held_out.items()}
            yield images, scores

    def _images(self, rows: Tensor) -> int:
        """How many images a client trains on in a round."""
        batches = -(-len(rows) // self.recipe.batch)
        return self.recipe.epochs * (batches * self.recipe.batch if self.recipe.wrap else len(rows))

    @torch.no_grad()
    def _load(self, values: list[Tensor]) -> None:
        for tensor, value in zip([*self.parameters, *self.statistics], values, strict=True):
            tensor.copy_(value)

    def _fit(self, rows: Tensor) -> float:
        recipe = self.recipe
        kind = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}[recipe.optimizer]
        optimizer = kind(self.parameters, lr=recipe.lr, weight_decay=recipe.weight_decay, fused=self.fused)
        self.model.train()
        running = torch.zeros(())
        for _ in range(recipe.epochs):
            order = rows[torch.randperm(len(rows), generator=self.rng)]
            if recipe.wrap:
                order = torch.cat([order, order[: -len(order) % recipe.batch]])
            for batch in order.split(recipe.batch):
                x = self.augment(self.pixels[batch], self.augment.draw(len(batch), self.rng))
                with torch.autocast("cpu", torch.bfloat16, enabled=recipe.bf16):
                    logits = self.model(x).logits
                loss = F.cross_entropy(logits.float(), self.labels[batch])
                optimizer.zero_grad()
                loss.backward()
                if recipe.clip is not None:
                    torch.nn.utils.clip_grad_norm_(self.parameters, recipe.clip)
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
