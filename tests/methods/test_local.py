"""Local training: nothing is received after the start, nobody else matters, the optimiser is the protocol's."""

from __future__ import annotations

from pathlib import Path

import yaml

from fedshift.experiments.expand import expand
from fedshift.experiments.load import load
from fedshift.storage.workspace import Workspace
from fedshift.testing.toys import finish, method, small, spec
from tests.conftest import ROOT


def test_released_is_one_optimiser_at_a_constant_rate(tmp_path: Path) -> None:
    (tmp_path / "reference").symlink_to(ROOT / "reference")
    (tmp_path / "experiments").mkdir()
    told = {
        "title": "Both",
        "protocol": "fdse",
        "spec": {"data": {"dataset": "office_caltech10"}},
        "methods": {"local": None, "released": {"preset": "released", "method": {"name": "local"}}},
        "axes": {"seed": [2]},
    }
    (tmp_path / "experiments" / "both.yaml").write_text(yaml.safe_dump(told))
    plain, released = (
        cell.spec.local for cell in expand(Workspace(tmp_path), load(Workspace(tmp_path), "both"))
    )
    assert (plain.optimizer_state, plain.schedule.kind) == ("reset", "exponential")
    assert (released.optimizer_state, released.schedule.kind) == ("persist", "constant")
    assert plain.model_copy(update={"optimizer_state": "persist", "schedule": released.schedule}) == released


def test_every_client_s_model_is_tested_on_the_unseen_domain() -> None:
    run = small(spec(federation={"rounds": 1}), method("local"), clients=2)
    finish(run)
    assert run.evaluator.reported == ("personal", "post_train")
    target = [row for row in run.records.rows if row["split"] == "target" and row["round"] == 1]
    assert {(row["member"], row["metric"]) for row in target} == {
        (k, metric) for k in (0, 1) for metric in ("accuracy", "loss")
    }
