"""Layout: every tensor of a model has a place in a row, and index sets pick places."""

from __future__ import annotations

import pytest
import torch

from fedshift.common.registry import get, names
from fedshift.federation.layout import Layout
from fedshift.models.base import Model


def build(name: str = "digits_cnn") -> Model:
    chosen = get("models", name)
    model: Model = chosen(3, max(32, chosen.min_px))
    return model


@pytest.mark.parametrize("name", names("models"))
def test_layout_covers_every_tensor_once(name: str) -> None:
    model = build(name)
    layout = Layout(model)
    assert sum(tensor.numel() for tensor in model.parameters()) == layout.P
    assert sum(tensor.numel() for tensor in model.buffers() if tensor.is_floating_point()) == layout.Q
    covered = torch.zeros(layout.size, dtype=torch.int64)
    for entry in layout.entries:
        covered[entry.slice] += 1
        assert (entry.kind == "bn_statistic") == entry.name.endswith(("running_mean", "running_var"))
        assert (entry.offset >= layout.P) == (entry.kind in ("bn_statistic", "statistic"))
    assert covered.eq(1).all()


def test_index_sets() -> None:
    layout = Layout(build())
    bn = layout.kind("bn_affine", "bn_statistic")
    assert isinstance(layout.everything.at, slice)
    assert isinstance(bn.at, torch.Tensor)
    assert bn.size + (~bn).size == layout.size
    assert (bn & ~bn).size == 0
    assert (bn | ~bn).size == layout.size
    row = torch.arange(float(layout.size))
    assert row[bn.at].tolist() == [float(i) for i in bn.mask.nonzero().flatten()]
    assert (layout.nothing | bn) is bn
    assert (bn | layout.nothing) is bn
    first, second, third = layout.entries[:3]
    adjoining = layout.select(lambda entry: entry in (first, second))
    assert adjoining.at == slice(0, second.slice.stop)
    scattered = layout.select(lambda entry: entry in (first, third))
    assert row[scattered.at].equal(torch.cat([row[first.slice], row[third.slice]]))
    assert layout.select(lambda entry: False).size == 0
