"""The images of a run as the engine sees them: one tensor of pixels, one of labels, and who holds which."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

CPU = torch.device("cpu")
Channels = tuple[float, float, float]


class Augmentation(Protocol):
    """Batched augmentation: `draw` all randomness of n samples, then apply it on any device to a batch, or to
    any number of batches of `size` together.
    """

    def draw(self, n: int, generator: torch.Generator) -> Tensor: ...

    def __call__(self, images: Tensor, draws: Tensor, size: int | None = None) -> Tensor: ...


class Samples:
    """pixels [n, ...] (uint8 images [n, px, px, 3], possibly a memory map) and labels [n], gathered by index
    for `device`.

    They lie on `home`: the device where they fit into `resident_bytes`, else the host, from where batches are
    sent over. mean, deviation: what `augment` and `evaluate` subtract from and divide pixels in [0, 1] by,
    per channel.
    """

    def __init__(
        self,
        pixels: Tensor,
        labels: Tensor,
        augment: Augmentation,
        evaluate: Callable[[Tensor], Tensor],
        mean: Channels = (0.0, 0.0, 0.0),
        deviation: Channels = (1.0, 1.0, 1.0),
        device: torch.device = CPU,
        resident_bytes: int = 16 << 30,
    ) -> None:
        self.augment, self.evaluate, self.device = augment, evaluate, device
        self.home = device if pixels.nbytes <= resident_bytes else pixels.device
        self.host_labels = labels
        self._mean, self._deviation = (
            torch.tensor(values, device=device)[:, None, None] for values in (mean, deviation)
        )
        self.pixels, self.labels = pixels.to(self.home), labels.to(self.home)

    def take(self, index: Tensor) -> tuple[Tensor, Tensor]:
        """Pixels and labels at positions `index` [B] (which lies at home), on the device."""
        pixels, labels = self.pixels.index_select(0, index), self.labels.index_select(0, index)
        return pixels.to(self.device, non_blocking=True), labels.to(self.device, non_blocking=True)

    def unit(self, x: Tensor) -> Tensor:
        """Normalised images [B, 3, h, w] back to [0, 1], in fp32."""
        return x.float() * self._deviation + self._mean

    def normalised(self, u: Tensor) -> Tensor:
        """Images in [0, 1] as the network sees them."""
        return (u - self._mean) / self._deviation


@dataclass(frozen=True)
class ClientData:
    """Positions of one client's samples by split (int64, ascending).

    domains: for the record; few_shot: the labels that the partition made rare in the training part,
        ascending.
    """

    train: Tensor
    val: Tensor
    test: Tensor
    domains: tuple[str, ...] = field(default=())
    few_shot: tuple[int, ...] = field(default=())

    def split(self, name: str) -> Tensor:
        return {"train": self.train, "val": self.val, "test": self.test}[name]


def pooled(clients: list[ClientData]) -> list[ClientData]:
    """One client that holds what all hold."""
    parts = {
        name: torch.cat([client.split(name) for client in clients]).sort().values
        for name in ("train", "val", "test")
    }
    domains = {domain for client in clients for domain in client.domains}
    few_shot = {label for client in clients for label in client.few_shot}
    return [ClientData(**parts, domains=tuple(sorted(domains)), few_shot=tuple(sorted(few_shot)))]
