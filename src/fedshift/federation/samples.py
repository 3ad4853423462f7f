"""The images of a run as the engine sees them: one tensor of pixels, one of labels, and who holds which."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor


class Augmentation(Protocol):
    """Batched augmentation: `draw` all randomness of n samples, then apply it to a batch on any device."""

    def draw(self, n: int, generator: torch.Generator) -> Tensor: ...

    def __call__(self, images: Tensor, draws: Tensor) -> Tensor: ...


@dataclass
class Samples:
    """pixels [n, ...] (uint8 images [n, px, px, 3], possibly a memory map) and labels [n]; gathered by index on `device`."""

    pixels: Tensor
    labels: Tensor
    augment: Augmentation
    evaluate: Callable[[Tensor], Tensor]

    def to(self, device: torch.device, resident_bytes: int = 16 << 30) -> Samples:
        """Labels always move to the device; pixels do where they fit into `resident_bytes`, else they are gathered batch by batch."""
        pixels = self.pixels.to(device) if self.pixels.nbytes <= resident_bytes else self.pixels
        return Samples(pixels, self.labels.to(device), self.augment, self.evaluate)

    def take(self, index: Tensor) -> tuple[Tensor, Tensor]:
        """Pixels and labels at positions `index` [B], on the labels' device."""
        pixels = self.pixels.index_select(0, index.to(self.pixels.device))
        return pixels.to(self.labels.device, non_blocking=True), self.labels[index]


@dataclass(frozen=True)
class ClientData:
    """Positions of one client's samples by split (int64, ascending); `domains` for the record."""

    train: Tensor
    val: Tensor
    test: Tensor
    domains: tuple[str, ...] = field(default=())

    def split(self, name: str) -> Tensor:
        return {"train": self.train, "val": self.val, "test": self.test}[name]


def pooled(clients: list[ClientData]) -> list[ClientData]:
    """One client that holds what all hold."""
    parts = {
        name: torch.cat([client.split(name) for client in clients]).sort().values
        for name in ("train", "val", "test")
    }
    return [
        ClientData(
            **parts, domains=tuple(sorted({domain for client in clients for domain in client.domains}))
        )
    ]
