"""Axes of an experiment: their names in tables, and values that tables can show."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from fedshift.analysis import tables
from fedshift.analysis.collection.collect import collect
from fedshift.analysis.collection.columns import COLUMNS, RUNS
from fedshift.analysis.quantities.select import curves
from fedshift.analysis.quantities.values import reported
from fedshift.common.registry import get
from fedshift.experiments.expand import Cell, expand
from fedshift.experiments.load import load
from fedshift.federation.records import SCHEMA, STATISTICS
from fedshift.storage.workspace import Workspace
from tests.analysis.conftest import Project, accuracy
from tests.verbs import fedshift, refused

TINY: dict[str, Any] = {
    "title": "Tiny",
    "protocol": "digits",
    "spec": {"federation": {"rounds": 1}},
    "methods": {"fedavg": None},
}


def declare(root: Path, **keys: Any) -> None:
    (root / "experiments" / "tiny.yaml").write_text(yaml.safe_dump({**TINY, **keys}, sort_keys=False))


def cells(root: Path, **axes: Any) -> list[Cell]:
    declare(root, axes=axes)
    return expand(Workspace(root), load(Workspace(root), "tiny"))


def test_every_column_of_ours_is_taken(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.declare(
        methods={"fedavg": None}, axes={"target": ["a"], "seed": [0]}, tables={"t": {"select": ["last"]}}
    )
    project.add("fedavg", {1: accuracy((0.5, 0.5), ood=0.5)}, target="a", seed=0)
    collected = project.collect()
    table = tables.cells(Workspace(tmp_path), collected, collected.experiment.tables["t"])
    sets = next(reported(collected, get("metrics", "accuracy")))
    columns = {*RUNS.names, *SCHEMA.names, *STATISTICS.names, *curves(collected), *sets, *table}
    columns = {name for name in columns if " " not in name}  # no axis has a blank in its name
    assert columns <= COLUMNS | {"target", "seed"}


def test_an_axis_bears_its_dotted_key_or_the_name_that_the_file_gives(project: Path) -> None:
    declare(
        project,
        methods={"fedavg": None, "fedprox": None},
        axes={
            "local.precision": ["fp32", "bf16"],
            "rate": {"key": "local.lr", "values": [0.1, 0.2]},
            "target": ["ink"],
        },
        only={"fedprox": {"rate": [0.2], "local.precision": ["fp32"]}},
        tables={"t": {"columns": ["local.precision", "rate"]}},
    )
    cells = expand(Workspace(project), load(Workspace(project), "tiny"))
    assert [
        (cell.label, *cell.axes.values(), cell.spec.local.precision, cell.spec.local.lr) for cell in cells
    ] == [
        ("fedavg", "fp32", 0.1, "ink", "fp32", 0.1),
        ("fedavg", "fp32", 0.2, "ink", "fp32", 0.2),
        ("fedavg", "bf16", 0.1, "ink", "bf16", 0.1),
        ("fedavg", "bf16", 0.2, "ink", "bf16", 0.2),
        ("fedprox", "fp32", 0.2, "ink", "fp32", 0.2),
    ]
    assert cells[0].spec.data.target == "ink"
    found = collect(Workspace(project), "tiny", empty=True)
    assert found.keys == ["method", "local.precision", "rate", "target"]
    assert found.runs["precision"].tolist() == found.runs["local.precision"].tolist()
    assert found.order == {"local.precision": ["fp32", "bf16"], "rate": [0.1, 0.2], "target": ["ink"]}
    table = tables.cells(Workspace(project), found, found.experiment.tables["t"])
    assert len(table) == 5 * 2  # each point on both axes, with id and ood


@pytest.mark.parametrize("name", ["value", "mean", "precision", "member"])
def test_a_name_that_is_a_column_of_ours_is_refused(project: Path, name: str) -> None:
    declare(project, axes={name: {"key": "local.lr", "values": [0.1]}, "seed": [0]})
    refused(fedshift(project, "collect", "tiny"), f"axes.{name}", "is a column", "key: local.lr")


def test_lists_and_nulls_are_text(project: Path) -> None:
    fractions = [[0.8, 0.1, 0.1], [0.6, 0.2, 0.2]]
    found = cells(project, **{"partition.fractions": fractions, "local.clip": [None, 1.0], "seed": [0, 1]})
    assert [cell.axes for cell in found][:3] == [
        {"partition.fractions": "[0.8,0.1,0.1]", "local.clip": "none", "seed": 0},
        {"partition.fractions": "[0.8,0.1,0.1]", "local.clip": "none", "seed": 1},
        {"partition.fractions": "[0.8,0.1,0.1]", "local.clip": "1.0", "seed": 0},
    ]
    assert [list(cell.spec.partition.fractions) for cell in (found[0], found[-1])] == fractions
    assert (found[0].spec.local.clip, found[-1].spec.local.clip) == (None, 1.0)
    declare(
        project,
        axes={"parts": {"key": "partition.fractions", "values": fractions}, "target": [None, "plain"]},
        tables={"t": {"columns": ["parts", "target"]}},
    )
    found_none = collect(Workspace(project), "tiny", empty=True)
    text = tables.write(Workspace(project), found_none).with_suffix(".md").read_text()
    assert "**parts = [0.6,0.2,0.2]**" in text
    assert "| method | none id | none ood | plain id | plain ood | Average id | Average ood |" in text


@pytest.mark.parametrize(
    ("axes", "said"),
    [
        ({"seed": []}, ("axes.seed", "has no value")),
        ({"seed": 3}, ("'axes.seed.values': must be a list of values, or `all`", "3")),
        ({"seed": [0, 1, 0]}, ("axes.seed", "has '0' twice")),
        ({"target": ["plain"], "data.target": ["ink"]}, ("axes.data.target", "know the axis of 'data.target' as 'target'")),
        ({"mu": {"key": "method.params.mu", "values": [1]}, "method.params.mu": [2]}, ("axes.mu", "sets what 'method.params.mu' sets")),
        ({"mu": {"key": "method.params.mu", "vales": [1]}}, ("axes.mu", "unknown key 'axes.mu.vales'", "'values'")),
    ],
)  # fmt: skip
def test_axes_that_mean_nothing_are_refused(
    project: Path, axes: dict[str, Any], said: tuple[str, ...]
) -> None:
    declare(project, axes=axes)
    refused(fedshift(project, "plan", "tiny"), "experiments/tiny.yaml", *said)
