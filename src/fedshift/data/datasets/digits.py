"""Digits in four renderings: 1,797 handwritten digits that ship with scikit-learn (the embedded default)."""

from __future__ import annotations

import functools
import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from fedshift.common.files import sha256
from fedshift.data.dataset import Dataset, Release

SIDE = 32
# [32, 32], values 0..255; integers throughout, so that every machine renders the same bytes
Plane = NDArray[np.int64]


class Digits(Dataset):
    """The k-th image of a class is in domain k mod 4 and in no other, so classes are balanced.

    - plain: white on black
    - ink: a dark colour on light paper
    - texture: a lighter or darker stroke on a smooth colour texture with grain
    - outline: the stroke's contour, its inside at half strength, turned by 5 to 15 degrees to either side,
      light on a dark ground

    Colours, textures and angles are random, seeded per image by SHA-256 of its number.
    """

    name = "digits"
    domains = ("plain", "ink", "texture", "outline")
    classes = tuple("0123456789")
    embedded = True
    releases = {
        "original": Release(
            source="sklearn.datasets.load_digits, rendered by fedshift",
            licence="CC BY 4.0 (UCI Machine Learning Repository); do as you like, name the source",
            citation="Alpaydin, Kaynak: Optical Recognition of Handwritten Digits. UCI Machine Learning "
            "Repository, 1998",
            manifest="digits.json",
        )
    }

    def paths(self, raw: Path) -> list[str]:
        _, labels = _strokes()
        paths = []
        for place, domain in enumerate(self.domains):
            for label, name in enumerate(self.classes):
                numbers = np.flatnonzero(labels == label)[place :: len(self.domains)]
                paths += [f"{domain}/{name}/{number:04d}" for number in numbers]
        return paths

    def content(self, raw: Path, path: str) -> bytes:
        return _render(path).tobytes()

    def image(self, raw: Path, path: str) -> Image.Image:
        return Image.fromarray(_render(path))


@functools.cache
def _strokes() -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Images [1797, 8, 8] with values 0..16, and labels [1797]."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    return digits.images.astype(np.int64), digits.target.astype(np.int64)


def _render(path: str) -> NDArray[np.uint8]:
    """Pixels uint8 [32, 32, 3] of `domain/class/number`."""
    domain, _, number = path.split("/")
    draws = _Draws(number)
    stroke = np.pad(np.clip((_enlarge(_strokes()[0][int(number)] * 16, 3) - 64) * 2, 0, 255), 4)
    return RENDERINGS[domain](stroke, draws).astype(np.uint8)


def _plain(stroke: Plane, draws: _Draws) -> Plane:
    return np.repeat(stroke[..., None], 3, axis=2)


def _ink(stroke: Plane, draws: _Draws) -> Plane:
    paper, ink = draws.between(190, 255, 3), draws.between(0, 120, 3)
    return _blend(paper, ink, stroke)


def _texture(stroke: Plane, draws: _Draws) -> Plane:
    base = draws.between(70, 185)
    ground = base + np.stack([_enlarge(draws.between(-32, 32, 8, 8), 4) for _ in range(3)], axis=2)
    ground = ground + draws.between(-10, 10, SIDE, SIDE, 1)
    colour = base + (125 if base < 128 else -125) + draws.between(-25, 25, 3)
    return np.clip(_blend(ground, colour, stroke), 0, 255)


def _outline(stroke: Plane, draws: _Draws) -> Plane:
    angle = int(draws.between(5, 15)) * (1 if draws.between(0, 1) else -1)
    turned = _turn(stroke, angle)
    padded = np.pad(turned, 1)
    around = np.stack([padded[y : y + SIDE, x : x + SIDE] for y in range(3) for x in range(3)])
    return _blend(draws.between(0, 60, 3), draws.between(180, 255, 3), turned - around.min(axis=0) // 2)


RENDERINGS = {"plain": _plain, "ink": _ink, "texture": _texture, "outline": _outline}


class _Draws:
    """Integers from a bit generator's raw stream, which no NumPy release changes."""

    def __init__(self, number: str) -> None:
        self._bits = np.random.PCG64(int(sha256(f"digits/{number}"), 16))

    def between(self, low: int, high: int, *shape: int) -> Plane:
        raw = np.asarray(self._bits.random_raw(math.prod(shape)), dtype=np.uint64).reshape(shape)
        return low + (raw >> np.uint64(33)).astype(np.int64) % (high - low + 1)


def _blend(ground: Plane, colour: Plane, weight: Plane) -> Plane:
    """`ground` where `weight` is 0, `colour` where it is 255."""
    return ground + (colour - ground) * weight[..., None] // 255


def _enlarge(small: Plane, times: int) -> Plane:
    """[8, 8] -> [8 * times, 8 * times], bilinear with half-pixel centres, in whole parts of 2 * times."""
    unit = 2 * times
    source: Plane = np.clip(2 * np.arange(8 * times) - times + 1, 0, 7 * unit)
    low, part = np.divmod(source, unit)
    high = np.minimum(low + 1, 7)
    tall = small[low] * (unit - part)[:, None] + small[high] * part[:, None]
    return (tall[:, low] * (unit - part) + tall[:, high] * part) // (unit * unit)


def _turn(plane: Plane, degrees: int) -> Plane:
    """Turn about the centre, bilinear, zero outside; in 1/1024 pixels."""
    cos, sin = (round(f(math.radians(degrees)) * 1024) for f in (math.cos, math.sin))
    centred = 2 * np.arange(SIDE) - (SIDE - 1)
    y, x = centred[:, None], centred[None, :]
    sources = ((v + 1024 * (SIDE - 1)) // 2 for v in (cos * y - sin * x, sin * y + cos * x))
    (row, down), (column, right) = (np.divmod(source, 1024) for source in sources)
    padded = np.pad(plane, SIDE)

    def at(dy: int, dx: int) -> Plane:
        return padded[row + dy + SIDE, column + dx + SIDE]

    top = at(0, 0) * (1024 - right) + at(0, 1) * right
    bottom = at(1, 0) * (1024 - right) + at(1, 1) * right
    return (top * (1024 - down) + bottom * down) >> 20
