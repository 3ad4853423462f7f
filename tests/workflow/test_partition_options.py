"""What the rule `partition` says on the command line makes the partition that the plan asks for."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from fedshift.cli import main
from fedshift.experiments.expand import expand
from fedshift.experiments.load import load
from fedshift.identity import partition_name, prepared_name
from fedshift.planning import job
from fedshift.spec import RunSpec
from fedshift.workspace import Workspace

REPOSITORY = Path(__file__).parents[2]


def partitions(workspace: Workspace) -> dict[Path, RunSpec]:
    """One run for each partition of all experiments."""
    folder, found = REPOSITORY / "experiments", dict[Path, RunSpec]()
    for path in sorted(folder.rglob("*.yaml")):
        name = path.relative_to(folder).with_suffix("").as_posix()
        for cell in expand(REPOSITORY, load(REPOSITORY, name)):
            found.setdefault(workspace.partition(partition_name(cell.spec)), cell.spec)
    return found


def test_options_of_every_experiment_name_its_partitions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedshift.data.partition.partition", Workspace.partition)  # the name alone, no images
    monkeypatch.setattr("fedshift.data.partition.twins", lambda path: 0)
    workspace = Workspace(tmp_path)
    found = partitions(workspace)
    assert any(isinstance(spec.data.target, tuple) for spec in found.values())  # two held-out domains
    one = next(iter(found.values()))
    changes = {"few_shot_target": {"each": 3}, "label_shift": {}}
    changed = one.model_copy(update={"partition": one.partition.model_copy(update={"modify": changes})})
    found[workspace.partition(partition_name(changed))] = changed  # no experiment of ours asks for changes
    for path, spec in found.items():
        workspace.prepared(prepared_name(spec.data)).mkdir(parents=True, exist_ok=True)
        words = shlex.split(shlex.join(job.partition(json.dumps(spec.model_dump(mode="json")))))
        told = CliRunner().invoke(main, ["--root", str(tmp_path), "partition", *words])
        assert told.output.strip() == str(path), words
