"""CCST's rendering in colours against the same written out in numpy: who draws which styles, and of which images they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from fedshift.data.renderings.ccst import CCST, Params
from fedshift.data.scheme import generator, permutation
from fedshift.testing.toys import images

Floats = NDArray[np.float64]


def style(u: Floats) -> tuple[Floats, Floats]:
    """Of all pixels of all images [n, px, px, 3] of a client: mean and deviation of each colour."""
    pixels = u.reshape(-1, 3)
    return pixels.mean(0), np.sqrt(((pixels - pixels.mean(0)) ** 2).mean(0) + 1e-5)


def styled(u: Floats, mean: Floats, deviation: Floats, alpha: float) -> NDArray[Any]:
    """AdaIN of one image [px, px, 3]."""
    pixels = u.reshape(-1, 3)
    own = np.sqrt(pixels.var(0, ddof=1) + 1e-5)
    moved = (u - pixels.mean(0)) / own * deviation + mean
    return ((1 - alpha) * u + alpha * moved).clip(0, 1) * 255


@pytest.mark.parametrize(("styles", "alpha"), [(1, 1.0), (2, 0.6), (3, 1.0)])
def test_a_rendering(styles: int, alpha: float) -> None:
    """Three clients, unequal; styles are of training images alone, and every image draws its own; validation and test images are left."""
    samples, clients, _ = images()
    stored = samples.pixels.numpy().copy()
    for split, shade in (
        ("val", 0),
        ("test", 255),
    ):  # what would move a style if it were among the training images
        for one in clients:
            stored[one.split(split).numpy()] = shade
    stored[clients[1].train.numpy()] //= 2
    rows = [
        pd.DataFrame({"sample": one.split(split).numpy(), "client": k, "split": split})
        for k, one in enumerate(clients)
        for split in ("train", "val", "test")
    ]
    table = pd.concat(rows, ignore_index=True).sample(frac=1, random_state=0)
    rendered: dict[int, list[NDArray[np.uint8]]] = {}
    for sample, image in CCST(Params(styles=styles, space="rgb", alpha=alpha)).render(stored, table, 5):
        rendered.setdefault(sample, []).append(image)
    unit = stored / 255
    known = [style(unit[one.train.numpy()]) for one in clients]
    drawn = set()
    assert sorted(rendered) == sorted(int(i) for one in clients for i in one.train)
    for k, one in enumerate(clients):
        for sample in one.train.tolist():
            chosen = permutation(generator(5, "styles", sample), 3)[:styles].tolist()
            drawn.add((k, *chosen))
            assert len(rendered[sample]) == styles
            for other, image in zip(chosen, rendered[sample], strict=True):
                if other == k:
                    assert np.array_equal(image, stored[sample])
                else:
                    assert np.abs(image - styled(unit[sample], *known[other], alpha)).max() < 0.51
    assert len(drawn) > 6  # not one draw a client
