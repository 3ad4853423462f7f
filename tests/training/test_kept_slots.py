"""Slots of the server that are declared worth keeping: beside the weights of a run that asks for them, and as they were."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from fedshift.analysis.collection.diagnostics import diagnostics
from fedshift.common.errors import FedshiftError
from fedshift.data.load import load
from fedshift.data.partition import partition
from fedshift.methods.hfedf.hypernet import generate
from fedshift.spec import RunSpec
from fedshift.spec.resolve import resolve
from fedshift.storage.rundir import RunDirectory
from fedshift.storage.workspace import Workspace
from fedshift.testing import toys
from fedshift.training import weights
from fedshift.training.assemble import assemble
from fedshift.training.run import Machine, train

CPU = torch.device("cpu")


def spec(name: str, keep: str) -> RunSpec:
    blocks: dict[str, Any] = {"method": {"name": name}, "evaluation": {"keep": keep}}
    return resolve(toys.spec(data={"target": "texture"}, local={"batch": 256, "lr": 0.05}, **blocks))


def trained(root: Path, run: RunSpec) -> tuple[RunDirectory, dict[str, Any]]:
    workspace = Workspace(root)
    partition(workspace, run)
    train(workspace, run, Machine(CPU))
    directory = workspace.run(run.run_name)
    return directory, json.loads(directory.summary_file.read_text())


@pytest.mark.parametrize("name", ["hfedf", "pfedhn"])
def test_the_hypernetwork_makes_the_models_that_are_kept_beside_it(name: str, project: Path) -> None:
    run = spec(name, "slots")
    directory, summary = trained(project, run)
    federation, _ = assemble(run, load(Workspace(project), run), CPU)
    layout, method = federation.layout, federation.method
    for selection in summary["weights"]:
        kept = weights.rows(directory, summary, selection, layout)
        assert kept.keys() == {"generated", "slot/h"}
        net = method.net(layout, 3)  # type: ignore[attr-defined]
        for k, row in enumerate(kept["generated"]):
            assert generate(net, kept["slot/h"], k).equal(row[layout.W])
        rows = weights.restore(federation, directory, summary, selection)
        found = [*weights.models(federation, rows, [torch.arange(2)])]
        held_out = torch.stack([one.row for one in found if one.sets[0][1] == "target"])
        assert held_out.equal(kept["generated"])
    if name == "hfedf":  # its embeddings of the last round are what was recorded then
        last = weights.rows(directory, summary, "last", layout)["slot/h"]
        told = diagnostics(Workspace(project), directory, "embeddings")
        told = told[told["round"] == 2].sort_values(["client", "index"])
        assert told["value"].tolist() == net.embeddings(last).flatten().tolist()


def test_it_is_kept_where_asked_for_alone(project: Path) -> None:
    run = spec("hfedf", "post_agg")
    directory, summary = trained(project, run)
    federation, _ = assemble(run, load(Workspace(project), run), CPU)
    assert weights.rows(directory, summary, "last", federation.layout).keys() == {"generated"}
    assert run.run_id != spec("hfedf", "slots").run_id


def test_a_method_without_such_slots_keeps_what_it_kept(project: Path) -> None:
    run = spec("scaffold", "slots")
    directory, summary = trained(project, run)
    federation, _ = assemble(run, load(Workspace(project), run), CPU)
    assert weights.rows(directory, summary, "last", federation.layout).keys() == {"shared"}
    assert not directory.diagnostics.exists()
    assert not diagnostics(Workspace(project), directory).size


def test_a_selection_that_no_run_keeps_is_refused() -> None:
    """A misspelt one was the last round, without a word."""
    summary = {"best_round": {"first": 3, "later": 5}, "rounds": 8, "spec": {"federation": {"rounds": 9}}}
    assert [weights.round_of(summary, name) for name in ("best_first", "best_later")] == [3, 5]
    for name in ("bestfirst", "oracle"):
        with pytest.raises(FedshiftError, match="unknown round that runs keep"):
            weights.round_of(summary, name)
