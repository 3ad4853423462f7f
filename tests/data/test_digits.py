"""The embedded digits: one domain per image, balance, and renderings that differ between domains alone."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest

from fedshift.data.datasets.digits import Digits

NOWHERE = Path("no raw tree")


def test_every_image_is_in_exactly_one_domain_and_classes_are_balanced() -> None:
    index = Digits().index(NOWHERE)
    assert len(index) == 1797
    assert index["path"].str.rpartition("/")[2].nunique() == 1797
    assert index.groupby("domain", sort=False).size().to_dict() == {
        "plain": 454, "ink": 451, "texture": 447, "outline": 445,
    }  # fmt: skip
    cells = index.groupby(["class", "domain"]).size().unstack()
    assert (cells.max(axis=1) - cells.min(axis=1)).max() == 1


def test_labels_are_scikit_learns() -> None:
    from sklearn.datasets import load_digits

    index = Digits().index(NOWHERE)
    numbers = index["path"].str.rpartition("/")[2].astype(int)
    np.testing.assert_array_equal(index["label"], load_digits().target[numbers])


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("plain/3/0003", "3b1e124187ccf6ea"),
        ("ink/3/0013", "a6d9bf13811849ae"),
        ("texture/3/0023", "edb757ab45d399c7"),
        ("outline/3/0045", "ec3dc02e67b0d260"),
    ],
)
def test_pixels_are_the_same_on_every_machine(path: str, content: str) -> None:
    assert path in Digits().paths(NOWHERE)
    pixels = np.asarray(Digits().image(NOWHERE, path))
    assert pixels.shape == (32, 32, 3)
    assert hashlib.sha256(pixels.tobytes()).hexdigest()[:16] == content


def test_domains_differ_in_what_they_say() -> None:
    digits = Digits()
    index = digits.index(NOWHERE).groupby("domain").head(40)
    mean = {}
    for domain, rows in index.groupby("domain"):
        pixels = np.stack([np.asarray(digits.image(NOWHERE, path)) for path in rows["path"]]).astype(float)
        corner = pixels[:, :3, :3].mean(axis=(1, 2, 3))
        mean[domain] = corner.mean()
        if domain == "plain":
            assert (pixels[..., 0] == pixels[..., 2]).all() and pixels.max() == 255 and corner.max() == 0
        else:
            assert (pixels[..., 0] != pixels[..., 2]).any()
    assert mean["plain"] < mean["outline"] < 70 < mean["texture"] < 180 < mean["ink"]
