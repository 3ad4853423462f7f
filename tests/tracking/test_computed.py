"""Metrics that tables show are computed from segments while a run is trained, and arrive in the store once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from fedshift.cli.track import _metrics
from fedshift.federation import checkpoint
from fedshift.planning.planfile import Cell, Run
from fedshift.storage.workspace import Workspace
from fedshift.testing.toys import method, small, spec
from fedshift.tracking.pages import followed
from fedshift.tracking.publish import Follower
from tests.tracking.conftest import stored


@pytest.mark.parametrize("metrics", [(), ("ece", "worst_class")])
def test_segments_of_a_running_run_give_their_metrics(tmp_path: Path, metrics: tuple[str, ...]) -> None:
    run = spec(federation={"rounds": 3})
    directory = tmp_path / "results" / "run"
    federation = small(run, method("fedavg"))
    fields = {**dict.fromkeys(Run._fields, 0), "digest": "d", "code": "c", "dataset": "digits", "target": "a"}
    planned = Run(**{**fields, "method": "fedavg", "directory": "results/run", "spec": run.model_dump_json()})  # type: ignore[arg-type]
    cells = [Cell("demo", "fedavg", json.dumps({"seed": 0}), "d")]
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    follower = Follower(Workspace(tmp_path), followed([planned], cells), uri, metrics)
    for _ in federation.run():
        checkpoint.save(federation, directory / "checkpoint", directory / "segments", "run")
        list(follower.sweep())
        assert not follower.problem
    there = stored(tmp_path / "mlflow.db")
    names = [(metric, step) for _, metric, step, *_ in there]
    assert len(set(names)) == len(names)
    for metric in ("acc", *metrics):
        assert [step for name, step in names if name == f"{metric}/id"] == [0, 1, 2, 3]
        assert [step for name, step in names if name == f"{metric}/ood"] == [0, 1, 2, 3]
    assert any("ece" in name for name, _ in names) == bool(metrics)


def test_what_tables_show_is_computed(tmp_path: Path) -> None:
    (tmp_path / "experiments").mkdir()
    declared = {
        "title": "A", "protocol": "digits", "methods": {"fedavg": None}, "axes": {"seed": [0]},
        "tables": {"first": {"metrics": ["ood", "ece.ood", "loss.id"]}, "second": {"metrics": ["ece.worst", "confidence.std"]}},
    }  # fmt: skip
    (tmp_path / "experiments" / "demo.yaml").write_text(yaml.safe_dump(declared))
    cells = [Cell("demo", "fedavg", "{}", "d")] * 2
    assert _metrics(Workspace(tmp_path), cells) == ("ece", "confidence")
