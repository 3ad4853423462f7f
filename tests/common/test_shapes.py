"""A network without values has the shapes of a drawn one, and no number was drawn for it."""

from __future__ import annotations

import pytest
import torch

from fedshift.common.formats import shapes_only
from fedshift.common.registry import get, names


@pytest.mark.parametrize("name", names("models"))
def test_it_has_the_entries_of_a_drawn_network(name: str) -> None:
    kind = get("models", name)
    drawn = kind(3, max(32, kind.min_px)).state_dict()
    before = torch.get_rng_state()
    with shapes_only():
        bare = kind(3, max(32, kind.min_px)).state_dict()
    assert torch.get_rng_state().equal(before)
    assert {entry: tensor.shape for entry, tensor in bare.items()} == {
        entry: tensor.shape for entry, tensor in drawn.items()
    }
    assert all(tensor.is_meta for tensor in bare.values())


def test_afterwards_tensors_are_drawn_as_before() -> None:
    with shapes_only():
        torch.nn.Linear(2, 2)
    assert torch.nn.Linear(2, 2).weight.device.type == "cpu"
    assert torch.empty(1000).normal_().std() > 0.5
