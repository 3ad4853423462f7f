"""What a run records of what it was: every parameter, at its default or not, under the same name as ever."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path

import pytest
import torch

from fedshift.common.registry import get, names
from fedshift.data.partition import partition
from fedshift.spec import parse
from fedshift.spec.resolve import complete, resolve
from fedshift.storage.workspace import Workspace
from fedshift.testing import toys
from fedshift.training.run import Machine, train


def test_parameters_at_their_default_are_in_the_runs_directory(project: Path) -> None:
    """FedProx's mu of 0.01 stood nowhere."""
    given = {
        "data": {"dataset": "digits", "target": "texture"}, "model": {"name": "digits_cnn"}, "method": {"name": "fedprox"},
        "partition": {"scheme": "clients_per_domain", "modify": {"few_shot_target": {}}},
        "local": {"batch": 64, "lr": 0.05}, "federation": {"rounds": 1},
    }  # fmt: skip
    workspace, spec = Workspace(project), resolve(parse(given, "test"))
    partition(workspace, spec)
    summary = train(workspace, spec, Machine(torch.device("cpu")))
    identity = spec.run_id
    written = json.loads((workspace.run(f"{spec.place}/{identity}").path / "spec.json").read_text())
    assert written["method"]["params"] == {"mu": 0.01}
    assert written["partition"]["params"] == {"clients": 30}
    assert written["partition"]["modify"]["few_shot_target"].keys() == {"each"}
    assert summary["spec"] == spec.model_dump(mode="json")  # what was declared, as ever
    assert resolve(parse(written, "spec.json")).run_id == identity


@pytest.mark.parametrize("name", names("methods"))
def test_a_complete_spec_is_the_same_run(name: str) -> None:
    spec = resolve(toys.spec(method={"name": name}))
    whole = complete(spec)
    written = json.loads(json.dumps(whole.model_dump(mode="json")))
    assert resolve(parse(written, "test")) == spec
    assert whole.method.params.keys() == {field.name for field in fields(get("methods", name).Params)}


def test_parameters_that_are_mappings_and_lists_come_back() -> None:
    change = {"label_shift": {"classes": {"plain": [0, 1]}, "keep": 0.2}}
    spec = resolve(toys.spec(partition={"modify": change}))
    written = json.loads(json.dumps(complete(spec).model_dump(mode="json")))
    assert resolve(parse(written, "test")) == spec
    assert written["partition"]["modify"]["label_shift"].keys() > change["label_shift"].keys()
