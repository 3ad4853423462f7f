"""Axes of an experiment: names that meet no other and no column of ours, and values that tables can show."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from fedshift.analysis import claims, report, tables
from fedshift.analysis.collect import RUNS, collect
from fedshift.analysis.figures import learning_curves
from fedshift.analysis.select import curves
from fedshift.experiments.axes import TAKEN, named
from fedshift.experiments.expand import Cell, expand
from fedshift.experiments.load import load
from fedshift.federation.records import SCHEMA, STATISTICS
from fedshift.planning import planfile
from fedshift.workspace import Workspace
from tests.analysis.conftest import Project, accuracy
from tests.verbs import done, fedshift, refused

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
    return expand(root, load(root, "tiny"))


@pytest.mark.parametrize(
    ("keys", "names"),
    [
        (["partition.params.d", "target", "seed"], ["d", "target", "seed"]),
        (["local.lr", "method.params.lr", "seed"], ["local.lr", "params.lr", "seed"]),
        (["local.lr", "method.params.mu"], ["lr", "mu"]),
        (["local.precision"], ["local.precision"]),  # RUNS has it
        (["partition.params.clients"], ["params.clients"]),  # RUNS has it
        (["partition.split"], ["partition.split"]),  # the records have it
        (["method.params.target", "data.target"], ["params.target", "target"]),
        (["model", "seed"], ["spec.model", "seed"]),
    ],
)
def test_a_name_is_as_short_as_tells_it_apart(keys: list[str], names: list[str]) -> None:
    assert list(named(keys).values()) == names


def test_every_column_of_ours_is_taken(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.declare(
        methods={"fedavg": None}, axes={"target": ["a"], "seed": [0]}, tables={"t": {"select": ["last"]}}
    )
    project.add("fedavg", {1: accuracy((0.5, 0.5), ood=0.5)}, target="a", seed=0)
    collected = project.collect()
    table = tables.cells(tmp_path, collected, collected.experiment.tables["t"])
    assert {*RUNS.names, *SCHEMA.names, *STATISTICS.names, *curves(collected), *table} <= TAKEN


def test_axes_with_the_name_of_a_column_or_of_each_other_are_kept_apart(project: Path) -> None:
    axes = {"local.precision": ["fp32", "bf16"], "local.lr": [0.1, 0.2], "partition.split": ["random"]}
    declare(project, axes=axes, tables={"t": {"columns": ["local.precision", "lr"]}})
    found = collect(Workspace(project), "tiny")
    assert found.keys == ["method", "local.precision", "lr", "partition.split"]
    assert found.runs["precision"].tolist() == found.runs["local.precision"].tolist()
    table = tables.cells(project, found, found.experiment.tables["t"])
    assert len(table) == 4 * 2  # each point on both axes, with id and ood
    pair = {"local.lr": [0.1, 0.2], "method.params.mu": [0.0], "method.params.lr": [0.1]}
    assert [*named([*pair]).values()] == ["local.lr", "mu", "params.lr"]


def test_lists_and_nulls_are_text(project: Path) -> None:
    fractions = [[0.8, 0.1, 0.1], [0.6, 0.2, 0.2]]
    found = cells(project, **{"partition.fractions": fractions, "local.clip": [None, 1.0], "seed": [0, 1]})
    assert [cell.axes for cell in found][:3] == [
        {"fractions": "[0.8,0.1,0.1]", "clip": "none", "seed": 0},
        {"fractions": "[0.8,0.1,0.1]", "clip": "none", "seed": 1},
        {"fractions": "[0.8,0.1,0.1]", "clip": "1.0", "seed": 0},
    ]
    assert [list(cell.spec.partition.fractions) for cell in (found[0], found[-1])] == fractions
    assert (found[0].spec.local.clip, found[-1].spec.local.clip) == (None, 1.0)
    declare(
        project,
        axes={"partition.fractions": fractions, "target": [None, "plain"]},
        tables={"t": {"columns": ["fractions", "target"]}},
    )
    text = (
        tables.write(Workspace(project), collect(Workspace(project), "tiny")).with_suffix(".md").read_text()
    )
    assert "**fractions = [0.6,0.2,0.2]**" in text
    assert "| method | none id | none ood | plain id | plain ood | Average id | Average ood |" in text


def test_one_and_two_held_out_domains_stand_on_two_axes(project: Path) -> None:
    found = cells(project, target=[["plain", "ink"], "ink"])
    assert [cell.axes for cell in found] == [
        {"target": "plain", "validation": "ink"},
        {"target": "ink", "validation": "none"},
    ]
    assert [cell.spec.data.held_out for cell in found] == [("plain", "ink"), ("ink",)]


@pytest.mark.parametrize(
    ("axes", "said"),
    [
        ({"seed": []}, ("axes.seed", "has no value")),
        ({"seed": [0, 1, 0]}, ("axes.seed", "has '0' twice")),
        ({"method.params.mu": [1, 1.0]}, ("axes.method.params.mu", "twice")),
        ({"target": ["plain"], "data.target": ["ink"]}, ("sets what 'data.target' sets",)),
        ({"method.params": [{"mu": 1}], "method.params.mu": [2]}, ("axes.method.params.mu", "sets what 'method.params'")),
    ],
)  # fmt: skip
def test_axes_that_mean_nothing_are_refused(
    project: Path, axes: dict[str, Any], said: tuple[str, ...]
) -> None:
    declare(project, axes=axes)
    refused(fedshift(project, "plan", "tiny"), "experiments/tiny.yaml", *said)


def test_plan_prints_the_packs_of_every_row(project: Path) -> None:
    declare(project, methods={"fedavg": None, "fedprox": None}, axes={"seed": [0, 1]})
    lines = done(fedshift(project, "plan", "tiny", "--print", "packs")).splitlines()
    path = Path(done(fedshift(project, "plan", "tiny", "--print", "path")).strip())
    packs = {run.digest: run.pack for run in planfile.runs(project / path)}
    expected = [
        (packs[use.digest], use.label, json.loads(use.axes)) for use in planfile.cells(project / path)
    ]
    shown = [line.split("  ") for line in lines]
    assert [(pack, label, json.loads(axes)) for pack, _, label, axes in shown] == expected
    assert len(set(packs.values())) == 2


def test_an_axis_with_the_name_of_a_column_is_shown_everywhere(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.declare(
        methods={"fedavg": None, "hfedf": None},
        axes={"local.precision": ["bf16", "fp32"], "target": ["a"], "seed": [0]},
        tables={"t": {"columns": ["local.precision"], "metrics": ["ood"]}},
        published={"*": "{method}/{local.precision}/{target}"},
        claims={"HF-C04.1": {"metric": "ood", "where": {"local.precision": "fp32"}}},
    )
    for precision, ood in (("bf16", 0.2), ("fp32", 0.3)):
        for label, more in (("fedavg", 0.0), ("hfedf", 0.1)):
            values = {1: accuracy((0.5, 0.5), ood=ood + more)}
            project.add(label, values, target="a", seed=0, **{"local.precision": precision})
    collected = project.collect()
    cells = tables.cells(tmp_path, collected, collected.experiment.tables["t"])
    assert cells.set_index(["method", "local.precision"])["mean"].round(6).to_dict() == {
        ("fedavg", "bf16"): 20, ("fedavg", "fp32"): 30, ("hfedf", "bf16"): 30, ("hfedf", "fp32"): 40,
    }  # fmt: skip
    (one,) = claims.verdicts(tmp_path, collected)
    assert [round(each.mean, 6) for each in one.differences] == [10]
    labels = [axes.get_ylabel() for axes in learning_curves(tmp_path, collected).axes]
    assert "local.precision = bf16\nin-distribution\naccuracy (%)" in labels
    assert "local.precision = fp32" in report.write(project.workspace, ["toy"], "toy").read_text()
