"""Data set and method are each run's own: its protocol's settings, its presets and its domains follow from them, whatever sets them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from fedshift.common.errors import FedshiftError
from fedshift.common.registry import get
from fedshift.experiments.expand import Cell, expand
from fedshift.experiments.schema import Experiment
from fedshift.spec import RunSpec
from fedshift.storage.workspace import Workspace
from tests.conftest import ROOT
from tests.verbs import done, fedshift, refused

OFFICE, PACS = "office_caltech10", "pacs"


def cells(**keys: Any) -> list[Cell]:
    told = {"name": "tried", "title": "Tried", "protocol": "fdse", "axes": {"seed": [2]}, **keys}
    return expand(Workspace(ROOT), Experiment.model_validate(told))


def settings(spec: RunSpec) -> tuple[str, int, float, Any]:
    """What FDSE's protocol and presets set by data set: local epochs, FedProx's rate and mu."""
    return spec.data.dataset, spec.local.epochs, spec.local.lr, spec.method.params.get("mu")


TUNED = [(OFFICE, 1, 0.1, 0.1), (PACS, 5, 0.05, 0.0001)]


def test_a_data_set_on_an_axis_has_its_settings_and_presets() -> None:
    found = cells(methods={"fedprox": None}, axes={"data.dataset": [OFFICE, PACS], "seed": [2]})
    assert [settings(cell.spec) for cell in found] == TUNED
    assert [cell.axes for cell in found] == [
        {"data.dataset": OFFICE, "seed": 2},
        {"data.dataset": PACS, "seed": 2},
    ]


def test_a_data_set_in_an_entry_has_its_settings_and_presets() -> None:
    methods = {name: {"method": {"name": "fedprox"}, "data": {"dataset": name}} for name in (OFFICE, PACS)}
    assert [settings(cell.spec) for cell in cells(methods=methods)] == TUNED
    over = cells(methods={"fedprox": {"data": {"dataset": PACS}}}, spec={"data": {"dataset": OFFICE}})
    assert [settings(cell.spec) for cell in over] == TUNED[1:]


def test_what_an_experiment_says_itself_still_wins() -> None:
    found = cells(
        methods={"fedprox": {"local": {"lr": 0.3}}},
        spec={"local": {"epochs": 2}},
        axes={"data.dataset": [OFFICE, PACS], "method.params.mu": [0.5], "seed": [2]},
    )
    assert [settings(cell.spec) for cell in found] == [(OFFICE, 2, 0.3, 0.5), (PACS, 2, 0.3, 0.5)]


def test_all_targets_and_seeds_are_those_of_each_data_set() -> None:
    axes = {"data.dataset": [OFFICE, PACS], "target": "all", "seed": "all"}
    found = cells(methods={"fedavg": None, "fedbn": None}, protocol="fdse_unseen", axes=axes)
    targets: dict[str, list[Any]] = {OFFICE: [], PACS: []}
    for cell in found:
        if cell.label == "fedbn":
            targets[cell.spec.data.dataset].append(cell.spec.data.target)
            assert cell.axes == {
                "data.dataset": cell.spec.data.dataset,
                "target": cell.spec.data.target,
                "seed": 2,
            }
    assert targets == {name: list(get("datasets", name).domains) for name in (OFFICE, PACS)}
    assert len(found) == 2 * (4 + 4)


def test_a_domain_that_two_data_sets_share_is_held_out_of_both() -> None:
    found = cells(
        methods={"fedavg": None},
        protocol="hfedf",
        axes={"data.dataset": ["pacs", "domainnet10"], "target": "all", "seed": [0]},
        only={"fedavg": {"target": ["sketch", "photo"]}},
    )
    assert [(cell.spec.data.dataset, cell.spec.data.target) for cell in found] == [
        ("pacs", "photo"), ("pacs", "sketch"), ("domainnet10", "sketch")
    ]  # fmt: skip


def test_all_targets_of_a_folder_are_asked_for() -> None:
    with pytest.raises(FedshiftError, match="which only its images tell") as error:
        cells(
            methods={"fedavg": None},
            spec={"data": {"dataset": "folder", "release": "mine"}},
            axes={"target": "all"},
        )
    assert "target: [a, b]" in str(error.value)


def test_an_axis_of_one_methods_parameter_says_which_rows_to_write(project: Path) -> None:
    path = project / "experiments" / "tiny.yaml"
    told = {"title": "Tiny", "protocol": "digits", "methods": {"fedavg": None, "fedprox": None}, "axes": {"method.params.mu": [0.1, 1.0], "target": ["ink"]}}  # fmt: skip
    path.write_text(yaml.safe_dump(told))
    result = fedshift(project, "plan", "tiny")
    refused(result, "axes.method.params.mu", "fedavg, has no parameter 'mu'", "fedprox-0.1: {")
    row = yaml.safe_load(result.output[result.output.index("fedprox-0.1: {") :].partition(", and so on")[0])
    path.write_text(yaml.safe_dump({**told, "methods": {"fedavg": None, **row}, "axes": {"target": ["ink"]}}))
    done(fedshift(project, "plan", "tiny"))
    path.write_text(yaml.safe_dump({**told, "axes": {"method.params.mmu": [0.1], "target": ["ink"]}}))
    refused(fedshift(project, "plan", "tiny"), "method.params", "unknown key 'mmu'")
