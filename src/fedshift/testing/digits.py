"""Handwritten digits as a small federation, without files: each client sees them in its own colours."""

from collections.abc import Sequence

import torch
from sklearn.datasets import load_digits
from torch import Tensor

from fedshift.data.augment import Augment, Evaluate
from fedshift.federation.samples import ClientData, Samples

PX = 32
COLOURS = ((1.0, 0.8, 0.4), (0.5, 1.0, 0.9), (0.9, 0.3, 1.0), (0.6, 0.6, 0.6))  # the last one is held out


def digits(
    augmentation: str, train: Sequence[int], val: int, test: int
) -> tuple[Samples, list[ClientData], Tensor]:
    """Images [n, 32, 32, 3], three clients, and the positions of `test` images of the held-out domain.

    train: training images of each client; val, test: validation and test images of each.
    """
    sizes = [*(size + val + test for size in train), test]
    count = sum(sizes)
    grey = torch.from_numpy(load_digits().images[:count]).mul(15.9)
    labels = torch.from_numpy(load_digits().target[:count]).long()
    pixels = grey.repeat_interleave(4, 1).repeat_interleave(4, 2)[..., None].repeat(1, 1, 1, 3)
    *own, held_out = torch.arange(count).split(sizes)
    for part, colour in zip([*own, held_out], COLOURS, strict=True):
        pixels[part] *= torch.tensor(colour, dtype=pixels.dtype)
    clients = [
        ClientData(part[:size], part[size : size + val], part[size + val :], (f"domain{k}",), (1, 2))
        for k, (part, size) in enumerate(zip(own, train, strict=True))
    ]
    augment, evaluate = Augment(augmentation, PX, PX, "half"), Evaluate(PX, PX, "half")
    samples = Samples(pixels.to(torch.uint8), labels, augment, evaluate, evaluate.mean, evaluate.deviation)
    return samples, clients, held_out
