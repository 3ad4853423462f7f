"""The images of a run in the engine: a tensor of pixels, one of labels, and positions of each client."""

import itertools
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

CPU = torch.device("cpu")
Channels = tuple[float, float, float]
Batch = tuple[Tensor, Tensor]
RESIDENT = 16 << 30  # bytes of images that an accelerator takes
AHEAD = 2  # finished gathers that wait for the computation


class Augmentation(Protocol):
    """Batched augmentation in two steps.

    `draw` samples all random numbers for n images. Calling it then applies them on any device, to one batch
    or to any number of batches of `size` together.
    """

    def draw(self, n: int, generator: torch.Generator) -> Tensor: ...

    def __call__(self, images: Tensor, draws: Tensor, size: int | None = None) -> Tensor: ...


class Samples:
    """Pixels [n, ...] and labels [n], gathered by index for `device`.

    Pixels are uint8 images [n, px, px, 3], possibly a memory map. They are stored on `home`: the device if
    they fit into `resident_bytes`, else the host, from where `stream` gathers ahead.

    - resident_bytes: if None, RESIDENT, or half the machine's memory if the device is a CPU
    - mean, deviation: per channel, what `augment` and `evaluate` subtract from pixels in [0, 1] and divide
      them by
    """

    def __init__(
        self, pixels: Tensor, labels: Tensor, augment: Augmentation, evaluate: Callable[[Tensor], Tensor],
        mean: Channels = (0.0, 0.0, 0.0), deviation: Channels = (1.0, 1.0, 1.0),
        device: torch.device = CPU, resident_bytes: int | None = None,
    ) -> None:  # fmt: skip
        self.augment, self.evaluate, self.device = augment, evaluate, device
        resident = pixels.nbytes <= (_room(device) if resident_bytes is None else resident_bytes)
        self.home = device if resident else pixels.device
        self._reader = None if resident else ThreadPoolExecutor(1, "gather")
        self.host_labels = labels
        self._mean = torch.tensor(mean, device=device)[:, None, None]
        self._deviation = torch.tensor(deviation, device=device)[:, None, None]
        self.pixels, self.labels = pixels.to(self.home), labels.to(self.home)

    def take(self, index: Tensor) -> Batch:
        """Pixels and labels at positions `index` [B] (a tensor on `home`), on the device."""
        return self._send(self._gather(index))

    def stream(self, indices: Iterable[Tensor]) -> Iterator[Batch]:
        """`take` for each index; if images are not resident, a thread gathers the next AHEAD meanwhile."""
        if self._reader is None:
            yield from map(self.take, indices)
            return
        gathers: deque[Future[Batch]] = deque()
        for index in indices:
            gathers.append(self._reader.submit(self._gather, index))
            if len(gathers) > AHEAD:
                yield self._send(gathers.popleft().result())
        while gathers:
            yield self._send(gathers.popleft().result())

    def _gather(self, index: Tensor) -> Batch:
        """Pixels and labels at home, in pinned memory if they are sent to a GPU."""
        out = None
        if self.device.type == "cuda" and self.home != self.device:
            shape = (len(index), *self.pixels.shape[1:])
            out = torch.empty(shape, dtype=self.pixels.dtype, pin_memory=True)
        pixels = torch.index_select(self.pixels, 0, index, out=out)
        return pixels, self.labels.index_select(0, index)

    def _send(self, batch: Batch) -> Batch:
        pixels, labels = batch
        return pixels.to(self.device, non_blocking=True), labels.to(self.device, non_blocking=True)

    def unit(self, x: Tensor) -> Tensor:
        """Normalised images [B, 3, h, w] back to [0, 1], in fp32."""
        return x.float() * self._deviation + self._mean

    def normalised(self, u: Tensor) -> Tensor:
        """Images in [0, 1] normalised for the network."""
        return (u - self._mean) / self._deviation


def _room(device: torch.device) -> int:
    """Bytes of images that the device may hold; on a CPU, bytes that the file cache may hold."""
    if device.type != "cpu":
        return RESIDENT
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


@dataclass(frozen=True)
class ClientData:
    """Positions of one client's samples by split (int64, ascending).

    domains: for the record; few_shot: the labels that the partition made rare in the training part,
        ascending.
    """

    train: Tensor
    val: Tensor
    test: Tensor
    domains: tuple[str, ...] = ()
    few_shot: tuple[int, ...] = ()

    def split(self, name: str) -> Tensor:
        return {"train": self.train, "val": self.val, "test": self.test}[name]


def pooled(clients: list[ClientData]) -> list[ClientData]:
    """One client with the samples of all clients."""
    splits = ([client.split(name) for client in clients] for name in ("train", "val", "test"))
    domains = sorted({domain for client in clients for domain in client.domains})
    few_shot = sorted({label for client in clients for label in client.few_shot})
    train, val, test = (torch.cat(positions).sort().values for positions in splits)
    return [ClientData(train, val, test, tuple(domains), tuple(few_shot))]


# Bytes of stored pixels, as floats, to augment at once, in about ten times as much memory. A CPU is not
# faster beyond its cache; a large GPU takes a client's round of small images.
AT_ONCE = {"cpu": 4 << 20}
AT_ONCE_ELSEWHERE = 64 << 20
PART = 320  # of a GPU's memory, where that is more


def batches(
    samples: Samples, order: Tensor, draws: Tensor, sizes: Sequence[int]
) -> Iterator[tuple[Tensor, Tensor]]:
    """Augment the samples at `order` [M] by `draws` [M, ..] and yield batches of these sizes in turn.

    `order` is at home, `draws` on the device. Yields x [B, 3, h, w], y [B]. The numbers equal those of each
    batch augmented separately.
    """
    budget = AT_ONCE.get(samples.device.type, AT_ONCE_ELSEWHERE)
    if samples.device.type == "cuda":
        budget = max(budget, torch.cuda.get_device_properties(samples.device).total_memory // PART)
    chunks = list(_chunks(sizes, budget // (4 * samples.pixels[0].numel())))
    gathered = samples.stream(order[chunk] for chunk, _ in chunks)
    for (chunk, size), (pixels, y) in zip(chunks, gathered, strict=True):
        x = samples.augment(pixels, draws[chunk], size)
        yield from zip(x.split(size), y.split(size), strict=True)


def _chunks(sizes: Sequence[int], most: int) -> Iterator[tuple[slice, int]]:
    """Slices to compute at once, with the size of their batches: `most` samples, or one batch."""
    start = 0
    for size, alike in itertools.groupby(sizes):
        remaining = len(list(alike))
        while remaining:
            count = max(1, min(remaining, most // size))
            yield slice(start, start + count * size), size
            start, remaining = start + count * size, remaining - count
