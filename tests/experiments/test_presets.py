"""What presets, data sets and seeds change of a protocol, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fedshift.common.errors import FedshiftError
from fedshift.experiments import load
from fedshift.spec import Model
from fedshift.storage.workspace import Workspace
from tests.experiments.played import declared


@pytest.mark.parametrize("protocol", ["fedrd", "stablefdg", "stablefdg_multi", "stablefdg_n3"])
def test_imagenet_is_the_papers_start_and_scratch_differs_in_nothing_else(
    project: Path, protocol: str
) -> None:
    pacs: dict[str, Any] = {"spec": {"data": {"dataset": "pacs"}}, "axes": {"target": ["photo"]}}
    (default,) = declared(project, protocol, preset="default", **pacs)
    (scratch,) = declared(project, protocol, preset="scratch", **pacs)
    assert default.spec.model == Model(name="resnet18", init="imagenet")
    assert default.spec.partition.split == "official"  # the published lists
    assert scratch.spec == default.spec.model_copy(update={"model": Model(name="resnet18")})


def test_mistakes_are_named(project: Path) -> None:
    with pytest.raises(FedshiftError, match="'relesed'") as error:
        declared(project, "fdse", preset="relesed")
    assert "released" in str(error.value)
    (project / "reference" / "protocols" / "a.yaml").write_text("{title: A, base: b}")
    (project / "reference" / "protocols" / "b.yaml").write_text("{title: B, base: a}")
    with pytest.raises(FedshiftError, match="is based on itself"):
        load.protocol(Workspace(project), "a")
    with pytest.raises(FedshiftError, match="where the protocol names seeds"):
        declared(project, "digits", axes={"target": ["ink"], "seed": "all"})


def test_all_seeds_are_those_of_the_protocol(project: Path) -> None:
    cells = declared(project, "fdse", axes={"seed": "all"})
    assert [cell.spec.seed for cell in cells] == [2, 4388, 15, 333, 967]


def test_presets_of_methods_hold_for_protocols_that_build_on_theirs(project: Path) -> None:
    (project / "reference" / "presets" / "fedavg.yaml").write_text(
        "{fdse: {digits: {local: {lr: 0.3}}}, fdse_unseen: {'*': {local: {clip: 7.0}}}}"
    )
    (cell,) = declared(project, "fdse_unseen")
    assert (cell.spec.local.lr, cell.spec.local.clip) == (0.3, 7.0)


@pytest.mark.parametrize(("dataset", "lam"), [("office_caltech10", 0.05), ("pacs", 0.5)])
def test_the_released_lambda_weighs_the_released_term_alone(project: Path, dataset: str, lam: float) -> None:
    methods = {"fdse": None, "released": {"method": {"name": "fdse"}, "preset": "released"}}
    told = {"methods": methods, "spec": {"data": {"dataset": dataset}}, "axes": {"seed": [2]}}
    ours, released = (cell.spec.method.params for cell in declared(project, "fdse", **told))
    assert not {"lam", "consistency"} & ours.keys()  # their defaults: 0.1, Eq. 4 to 7
    assert (released["lam"], released["consistency"]) == (lam, "code_head")
