"""What presets, data sets and seeds change of a protocol, and nothing else."""

from __future__ import annotations

import functools
import operator
from pathlib import Path
from typing import Any

import pytest

from fedshift.common.errors import FedshiftError
from fedshift.experiments import load
from fedshift.spec import Model
from fedshift.storage.workspace import Workspace
from tests.conftest import ROOT
from tests.experiments.played import SMALL, declared


@pytest.mark.parametrize(
    ("protocol", "preset", "differs"),
    [
        ("fdse", "released", {"local": {"schedule": {"kind": "exponential", "unit": "round", "gamma": 0.9998, "step": 1}}}),
        ("fedrd", "released", {"federation": {"rounds": 101}, "model": {"init": "imagenet"}}),
        ("fedrd", "scratch", {"federation": {"rounds": 100}, "model": {"init": "scratch"}}),
        ("hfedf", "bf16", {"local": {"precision": "bf16"}, "model": {"init": "scratch"}}),
        ("stablefdg", "released", {"local": {"schedule": {"kind": "constant", "unit": "round", "gamma": 1.0, "step": 1}}}),
        ("stablefdg_n3", "scratch", {"model": {"init": "scratch"}, "federation": {"participation": 1.0}}),
    ],
)  # fmt: skip
def test_presets_change_what_they_name(
    project: Path, protocol: str, preset: str, differs: dict[str, Any]
) -> None:
    network = {"model": {"name": "resnet18"}, "data": {**SMALL["data"], "input_px": 32}}
    (cell,) = declared(project, protocol, preset=preset, spec=network)
    told = cell.spec.model_dump()
    for block, values in differs.items():
        assert {key: told[block][key] for key in values} == values
    (default,) = declared(project, protocol, preset="default", spec=network)
    assert default.spec != cell.spec


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


def test_every_paper_is_trained_in_fp32() -> None:
    for name in load.protocols(Workspace(ROOT)):
        known = load.protocol(Workspace(ROOT), name)
        if known.paper:
            assert known.spec["local"]["precision"] == "fp32"
            assert known.sources["local.precision"].why


@pytest.mark.parametrize(
    ("protocol", "preset", "dataset", "place", "value"),
    [
        ("fdse", "default", "pacs", ("local", "epochs"), 5),
        ("fdse", "default", "office_caltech10", ("local", "epochs"), 1),
        ("fdse", "default", "domainnet10", ("local", "epochs"), 1),
        ("fdse", "default", "domainnet10", ("local", "schedule", "gamma"), 0.9998),
        ("fdse", "default", "office_caltech10", ("local", "schedule", "gamma"), 0.998),
        ("fdse", "text", "domainnet10", ("local", "epochs"), 5),
        ("fdse", "text", "domainnet10", ("local", "schedule", "gamma"), 0.998),
        ("fdse_unseen", "default", "domainnet10", ("local", "epochs"), 1),
        ("fdse", "default", "pacs", ("local", "batch_rule"), "keep_last"),
        ("fdse_unseen", "default", "office_caltech10", ("local", "batch_rule"), "keep_last"),
        ("fdse_unseen", "default", "pacs", ("local", "epochs"), 5),
        ("fedrd", "default", "office_home", ("model", "name"), "resnet50"),
        ("stablefdg", "default", "digits_dg", ("local", "clip"), 2.5),
        ("stablefdg", "default", "vlcs", ("partition", "target_split"), "test"),
        ("stablefdg_n3", "default", "domainnet", ("federation", "rounds"), 60),
    ],
)
def test_a_data_set_changes_what_the_paper_changes_for_it(
    protocol: str, preset: str, dataset: str, place: tuple[str, ...], value: object
) -> None:
    settings = load.protocol(Workspace(ROOT), protocol).settings(dataset, preset, "test")
    assert functools.reduce(operator.getitem, place, settings) == value


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


@pytest.mark.parametrize(
    ("method", "dataset", "lr", "params"),
    [
        ("feddyn", "office_caltech10", 0.01, {}),  # alpha 0.1 is the method's default
        ("feddyn", "domainnet10", 0.05, {}),
        ("feddyn", "pacs", 0.1, {"alpha": 0.03}),
        ("moon", "office_caltech10", 0.05, {}),  # mu 1 is the method's default
        ("moon", "domainnet10", 0.1, {"mu": 0.1}),
        ("moon", "pacs", 0.05, {}),
        ("fedprox", "pacs", 0.05, {"mu": 0.0001}),
        ("fedavg", "pacs", 0.1, {}),
        ("fedavg", "office_caltech10", 0.1, {}),
        ("local", "domainnet10", 0.05, {}),
        ("fdse", "office_caltech10", 0.1, {}),  # lambda 0.1, tau 0.5 are the method's defaults
        ("fdse", "pacs", 0.05, {}),
    ],
)
def test_tuned_values_of_fdse_s_tables(
    project: Path, method: str, dataset: str, lr: float, params: dict[str, float]
) -> None:
    told = {"methods": {method: None}, "spec": {"data": {"dataset": dataset}}, "axes": {"seed": [2]}}
    (cell,) = declared(project, "fdse", **told)
    assert (cell.spec.local.lr, cell.spec.method.params) == (lr, params)


@pytest.mark.parametrize(("dataset", "lam"), [("office_caltech10", 0.05), ("pacs", 0.5)])
def test_the_released_lambda_weighs_the_released_term_alone(project: Path, dataset: str, lam: float) -> None:
    methods = {"fdse": None, "released": {"method": {"name": "fdse"}, "preset": "released"}}
    told = {"methods": methods, "spec": {"data": {"dataset": dataset}}, "axes": {"seed": [2]}}
    ours, released = (cell.spec.method.params for cell in declared(project, "fdse", **told))
    assert not {"lam", "consistency"} & ours.keys()  # their defaults: 0.1, Eq. 4 to 7
    assert (released["lam"], released["consistency"]) == (lam, "code_head")
