"""FedAvg as one would write it without a framework: the yardstick of round.py.

A plain module, one torch.optim.Adam (or SGD) per client and round, the average taken tensor by tensor. Of
fedshift it uses the network, the batched transforms and the settings of a run alone. Images lie decoded in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch.nn import functional as F

from fedshift.common.registry import get
from fedshift.data.augment import Augment, Evaluate
from fedshift.spec import RunSpec

EVALUATION_BATCH = 250


class Bare:
    """One client per source domain, with the settings of a run.

    fused: the kernel of Adam that updates a parameter in one pass; each: images in each part of a client at most
    """

    def __init__(self, prepared: Path, spec: RunSpec, fused: bool, each: int | None = None) -> None:
        self.local, self.fused, data = spec.local, fused, spec.data
        self.bf16, self.wrap = self.local.precision == "bf16", self.local.batch_rule == "wrap"
        index = pd.read_parquet(prepared / "index.parquet")
        self.pixels = torch.from_numpy(np.load(prepared / "images.npy"))
        self.labels = torch.from_numpy(index["label"].to_numpy("int64"))
        self.augment = Augment(data.augment, data.prepare.px, data.input_px, data.normalise)
        self.transform = Evaluate(data.prepare.px, data.input_px, data.normalise)
        self.rng = torch.Generator().manual_seed(0)
        torch.manual_seed(0)
        self.train: list[Tensor] = []
        self.held_out: dict[str, Tensor] = {}
        for domain in index["domain"].unique():
            rows = torch.from_numpy(np.flatnonzero(index["domain"] == domain))
            if domain == data.target:
                self.held_out[domain] = rows
                continue
            rows = rows[torch.randperm(len(rows), generator=self.rng)]
            validated, tested = (int(share * len(rows)) for share in spec.partition.fractions[1:])
            parts = rows.tensor_split([validated, validated + tested])
            self.held_out[domain], test, train = (part[:each] for part in parts)
            if len(test):
                self.held_out[f"{domain}, test"] = test
            self.train.append(train)
        model = get("models", spec.model.name)(index["label"].nunique(), data.input_px)
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
        batches = -(-len(rows) // self.local.batch)
        return self.local.epochs * (batches * self.local.batch if self.wrap else len(rows))

    @torch.no_grad()
    def _load(self, values: list[Tensor]) -> None:
        for tensor, value in zip([*self.parameters, *self.statistics], values, strict=True):
            tensor.copy_(value)

    def _fit(self, rows: Tensor) -> float:
        local = self.local
        kind = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}[local.optimizer]
        optimizer = kind(self.parameters, lr=local.lr, weight_decay=local.weight_decay, fused=self.fused)
        self.model.train()
        running = torch.zeros(())
        for _ in range(local.epochs):
            order = rows[torch.randperm(len(rows), generator=self.rng)]
            if self.wrap:  # the last batch of an epoch is filled from its beginning
                order = torch.cat([order, order[: -len(order) % local.batch]])
            for batch in order.split(local.batch):
                x = self.augment(self.pixels[batch], self.augment.draw(len(batch), self.rng))
                with torch.autocast("cpu", torch.bfloat16, enabled=self.bf16):
                    logits = self.model(x).logits
                loss = F.cross_entropy(logits.float(), self.labels[batch])
                optimizer.zero_grad()
                loss.backward()
                if local.clip is not None:
                    torch.nn.utils.clip_grad_norm_(self.parameters, local.clip)
                optimizer.step()
                running += loss.detach() * len(batch)
        return running.item() / (local.epochs * len(rows))

    @torch.no_grad()
    def _score(self, rows: Tensor) -> tuple[float, float]:
        """Accuracy and mean cross entropy."""
        self.model.eval()
        right, loss = torch.zeros(()), torch.zeros(())
        for batch in rows.split(EVALUATION_BATCH):
            with torch.autocast("cpu", torch.bfloat16, enabled=self.bf16):
                logits = self.model(self.transform(self.pixels[batch])).logits
            y = self.labels[batch]
            right += (logits.argmax(1) == y).sum()
            loss += F.cross_entropy(logits.float(), y, reduction="sum")
        return right.item() / len(rows), loss.item() / len(rows)
