"""Networks on flat rows: they compute what the model computes, from a start that seed and module decide."""

from __future__ import annotations

import pytest
import torch

from fedshift.common.registry import get, names
from fedshift.federation.layout import Layout, Network, initial
from fedshift.testing.toys import aliased
from tests.federation.test_layout import build

CPU = torch.device("cpu")


@pytest.mark.parametrize("name", names("models"))
def test_a_network_on_a_row_computes_what_the_model_computes(name: str) -> None:
    model, px = build(name), max(32, get("models", name).min_px)
    layout = Layout(model)
    row = torch.zeros(layout.size)
    tensors = dict(model.named_parameters()) | dict(model.named_buffers())
    for entry_name, view in layout.named(row).items():
        view.copy_(tensors[entry_name].detach())
    x = torch.randn(2, 3, px, px, generator=torch.Generator().manual_seed(0))
    expected = model.eval()(x).logits
    network = Network(build(name), layout, CPU).bind(row)
    torch.testing.assert_close(network.model.eval()(x).logits, expected, rtol=1e-4, atol=1e-5)
    assert aliased(network)
    for weight in network.model.parameters():
        if weight.dim() == 4:
            assert weight.is_contiguous(memory_format=torch.channels_last)


def test_the_start_is_keyed_by_seed_and_module() -> None:
    _, layout, row = initial(build, 0)
    torch.rand(3)
    assert initial(build, 0)[2].equal(row)
    assert not initial(build, 1)[2].equal(row)
    named = layout.named(row)
    assert all(named[name].eq(1).all() for name in named if name.endswith("running_var"))
    other = layout.named(initial(lambda: get("models", "digits_cnn")(3, 32), 0)[2])
    assert all(other[name].equal(named[name]) for name in named)
