"""Fixtures of the data tests: a workspace, and small trees of images."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fedshift.storage.workspace import Workspace


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    """An empty project folder."""
    return Workspace(tmp_path / "project")


def draw(path: Path, seed: int = 0, size: tuple[int, int] = (12, 10)) -> Path:
    """Write an image of random pixels; its format follows from the suffix."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)
    return path


def plant(root: Path, domains: Iterable[str], classes: Iterable[str], each: int = 2) -> Path:
    """A tree domain/class/image with `each` images a class, all different."""
    classes = list(classes)
    for a, domain in enumerate(domains):
        for b, label in enumerate(classes):
            for number in range(each):
                draw(root / domain / label / f"{number}.png", 1000 * a + 100 * b + number)
    return root
