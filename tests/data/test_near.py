"""Near duplicates."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageFilter

from fedshift.data.near import near
from tests.verbs import done, fedshift


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), count=st.integers(0, 40), distance=st.integers(0, 6))
def test_bands_find_every_pair(seed: int, count: int, distance: int) -> None:
    rng = np.random.default_rng(seed)
    hashes = np.repeat(rng.integers(0, 2, (count // 2 + 1, 64)), 2, axis=0)[:count].astype(bool)
    hashes ^= rng.random(hashes.shape) < 0.05
    bits = {(i, j): int((hashes[i] != hashes[j]).sum()) for i, j in itertools.combinations(range(count), 2)}
    assert near(hashes, distance) == {pair: n for pair, n in bits.items() if n <= distance}


def picture(seed: int) -> Image.Image:
    """A smooth random picture, whose low frequencies a hash can hold."""
    pixels = np.random.default_rng(seed).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    return Image.fromarray(pixels).resize((96, 80), Image.Resampling.BICUBIC)


def test_what_was_resized_or_saved_anew_is_found(tmp_path: Path) -> None:
    """Files that differ in every byte, in two domains and with two labels."""
    pytest.importorskip("imagehash")
    tree = tmp_path / "tree"
    for place, (a, b) in enumerate(itertools.product(("day", "night"), ("cat", "dog"))):
        (tree / a / b).mkdir(parents=True)
        for number in range(5):
            picture(100 * (1 + place) + number).save(tree / a / b / f"{number}.png")
    original = picture(7)
    original.save(tree / "day" / "cat" / "seen.png")
    original.resize((64, 54)).save(tree / "night" / "dog" / "again.jpg", quality=70)
    original.filter(ImageFilter.GaussianBlur(1)).save(tree / "day" / "cat" / "blurred.png")
    root = tmp_path / "project"
    root.mkdir()
    done(fedshift(root, "fetch", "folder", "--release", "mine", "--from", str(tree)))
    told = done(fedshift(root, "verify", "folder", "--release", "mine", "--near"))
    assert "pairs that look alike (4 of 64 bits): 3, 2 of them across domains, 2 across classes: " in told
    lines = (root / "data" / "raw" / "folder" / "mine.near.csv").read_text().splitlines()
    assert lines[0] == "path,like,bits" and len(lines) == 4
    assert {name for line in lines[1:] for name in line.split(",")[:2]} == {
        "day/cat/seen.png", "day/cat/blurred.png", "night/dog/again.jpg"
    }  # fmt: skip
    assert "look alike" not in done(fedshift(root, "verify", "folder", "--release", "mine"))
