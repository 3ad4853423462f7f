"""A run that is declared in a few words is the experiment's run of the same settings."""

from __future__ import annotations

from typing import Any

import pytest

from fedshift.common.errors import FedshiftError
from fedshift.data.dataset import Address
from fedshift.experiments.expand import expand
from fedshift.experiments.load import load
from fedshift.experiments.single import Single, spec_of
from fedshift.storage.workspace import Workspace
from tests.conftest import ROOT

WORKSPACE = Workspace(ROOT)


@pytest.mark.parametrize(
    ("name", "label", "axes", "single"),
    [
        (
            "hfedf/photo",
            "hfedf",
            {"d": 1, "target": "photo", "seed": 0},
            Single("hfedf", Address("pacs"), "photo", 0, None, "hfedf", {"partition.params.d": 1}),
        ),
        (
            "demo_all",
            "ccst-rgb",
            {"target": "ink", "seed": 0},
            Single(
                "ccst", Address("digits"), "ink", protocol="digits", settings={"method.params.space": "rgb"}
            ),
        ),
    ],
)
def test_it_is_the_experiments_run(name: str, label: str, axes: dict[str, Any], single: Single) -> None:
    cells = expand(WORKSPACE, load(WORKSPACE, name))
    (spec,) = [cell.spec for cell in cells if cell.label == label and cell.axes == axes]
    assert spec_of(WORKSPACE, single) == spec


@pytest.mark.parametrize(
    ("single", "place", "message"),
    [
        (Single("fedvag", Address("digits")), "fedshift run", "Did you mean 'fedavg'?"),
        (Single("fedavg", Address("digits"), "mnist"), "data.target", "unknown domain of digits 'mnist'"),
        (Single("fedavg", Address("digits"), settings={"local.lrr": 1}), "fedavg", "unknown key 'local.lrr'"),
        (Single("fedavg", Address("digits"), settings={"seed": 3}), "seed", "Say it by --seed"),
        (
            Single("fedavg", Address("digits"), rounds=2, settings={"federation.rounds": 3}),
            "rounds",
            "--rounds",
        ),
    ],
)
def test_mistakes_name_no_file_that_nobody_wrote(single: Single, place: str, message: str) -> None:
    with pytest.raises(FedshiftError) as caught:
        spec_of(WORKSPACE, single)
    assert message in str(caught.value) and place in caught.value.where
    assert "experiments/" not in caught.value.where
