"""What a run records of what it was: every parameter, and slots that are worth keeping."""

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import torch

from fedshift.common.parquet import read_parquet
from fedshift.common.registry import get, names
from fedshift.data.load import load
from fedshift.data.partition import partition
from fedshift.methods.hfedf.hypernet import generate
from fedshift.spec import RunSpec, parse
from fedshift.spec.resolve import complete, resolve
from fedshift.storage.rundir import RunDirectory
from fedshift.storage.workspace import Workspace
from fedshift.testing import toys
from fedshift.training import weights
from fedshift.training.assemble import assemble
from fedshift.training.run import Machine, train


def test_parameters_at_their_default_are_in_the_runs_directory(project: Path) -> None:
    """FedProx's mu of 0.01 stood nowhere."""
    parts = {"scheme": "clients_per_domain", "modify": {"few_shot_target": {}}}
    given = toys.spec(data={"target": "texture"}, method={"name": "fedprox"}, partition=parts)
    workspace, spec = Workspace(project), resolve(given)
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


CPU = torch.device("cpu")


def keeping(name: str, keep: str) -> RunSpec:
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
    run = keeping(name, "slots")
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
        told = read_parquet(directory.diagnostics).to_pandas()
        told = told[(told["name"] == "embeddings") & (told["round"] == 2)].sort_values(["client", "index"])
        assert told["value"].tolist() == net.embeddings(last).flatten().tolist()
