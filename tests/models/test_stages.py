"""Methods that name stages of a network are refused when a run is planned, where the network has not what they name."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from fedshift.common.errors import FedshiftError
from fedshift.common.registry import get
from fedshift.models.base import Model
from fedshift.spec.block import params
from fedshift.spec.resolve import resolve
from fedshift.testing.toys import spec

PX = {"vit_small": 256}


def planned(method: str, model: str, **hp: Any) -> None:
    px = PX.get(model, 64)
    data = {"prepare": {"px": px}, "input_px": px}
    resolve(spec(data=data, model={"name": model}, method={"name": method, "params": hp}), "here")


@pytest.mark.parametrize(
    ("method", "model", "hp", "said"),
    [
        ("dsu", "mobilenet", {}, ("stages", "stem of mobilenet", "[stem, stage1, stage2, stage3, stage4]")),
        ("dsu", "vit_small", {}, ("stages", "stem of vit_small", "stage6]")),
        ("dsu", "resnet18", {"stages": ["stage1", "stage5"]}, ("stages", "'stage5'", "stem, stage1, stage2, stage3, stage4.")),
        ("mixstyle", "lenet", {}, ("stages", "'stage3' is no stage of lenet", "Valid: stage1, stage2.")),
        ("stablefdg", "digits_cnn", {"positions": ["stage9"]}, ("positions", "'stage9'", "stage4.")),
        ("fdse", "densenet", {}, ("no layer to decompose", "alexnet_bn")),
    ],
)  # fmt: skip
def test_refused_when_planned(method: str, model: str, hp: dict[str, Any], said: tuple[str, ...]) -> None:
    with pytest.raises(FedshiftError) as error:
        planned(method, model, **hp)
    assert str(error.value).startswith("here: ")
    assert all(word in str(error.value) for word in said), str(error.value)


@pytest.mark.parametrize(
    ("method", "model", "hp"),
    [
        ("dsu", "mobilenet", {"stages": ["stem", "stage1"]}),
        ("dsu", "vit_small", {"stages": ["stage1", "stage6"]}),
        ("dsu", "resnet18", {}),
        ("fedfa", "vit_small", {}),
        ("stablefdg", "vit_small", {}),
    ],
)
def test_what_may_be_planned_trains(method: str, model: str, hp: dict[str, Any]) -> None:
    """At the size of its images, not at the smallest that the network takes."""
    planned(method, model, **hp)
    kind, px = get("methods", method), PX.get(model, 64)
    network: Model = kind(params(kind, hp)).model(get("models", model)(7, px))
    features = network.body(torch.randn(2, 3, px, px))
    assert features.isfinite().all()
    features.sum().backward()
