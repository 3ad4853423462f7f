"""Early stop: a run ends when it has not got better for long enough, wherever it was interrupted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

from fedshift.data.partition import partition
from fedshift.experiments.task import KEPT
from fedshift.federation.loop import Federation
from fedshift.identity import digest, run_name
from fedshift.spec import RunSpec, parse
from fedshift.spec.resolve import resolve
from fedshift.storage.workspace import Workspace
from fedshift.training import run as training
from fedshift.training.run import Machine, train
from fedshift.training.weights import round_of

MACHINE = Machine(torch.device("cpu"), 1, checkpoint_seconds=0)


def spec_of(patience: int | None, rounds: int = 8, every: int = 1, lr: float = 0.0) -> RunSpec:
    """With learning rate 0 and no batch normalisation the first evaluation is never beaten."""
    federation: dict[str, Any] = {"rounds": rounds, "patience": patience}
    keys = {
        "data": {"dataset": "digits", "target": "texture", "normalise": "half"},
        "model": {"name": "lenet"},
        "method": {"name": "fedprox"},
        "local": {"batch": 128, "lr": lr},
        "federation": federation,
        "evaluation": {"every": every},
    }
    return resolve(parse(keys, "test"))


def trained(root: Path, spec: RunSpec) -> tuple[dict[str, Any], pd.DataFrame]:
    partition(Workspace(root), spec)
    summary = train(Workspace(root), spec, MACHINE)
    run = Workspace(root).run(run_name(spec, digest(spec)))
    return summary, pd.read_parquet(run.metrics)


@pytest.mark.parametrize(("patience", "every", "last"), [(2, 1, 2), (3, 2, 4), (None, 1, 8), (20, 1, 8)])
def test_a_run_ends_after_as_many_rounds_without_progress(
    project: Path, patience: int | None, every: int, last: int
) -> None:
    """Round 0 is the best; the run ends in an evaluated round."""
    summary, metrics = trained(project, spec_of(patience, every=every))
    assert (summary["rounds"], metrics["round"].max()) == (last, last)
    assert summary["best_round"]["first"] == 0
    assert metrics[metrics["metric"] == "accuracy"]["round"].max() == last
    assert [round_of(summary, selection) for selection in KEPT] == [last, 0, last]


def test_a_run_that_gets_better_goes_on(project: Path) -> None:
    """Up to the round where it stops, it is the run without patience, to the last bit."""
    whole = trained(project, spec_of(None, rounds=5, lr=0.1))[1]
    patient = trained(project, spec_of(4, rounds=5, lr=0.1))[1]
    keys = ["round", "stage", "client", "split", "metric"]
    accuracies = [part[part["metric"] == "accuracy"].sort_values(keys)["value"] for part in (whole, patient)]
    assert accuracies[0].tolist() == accuracies[1].tolist()


def test_an_interrupted_run_ends_in_the_same_round(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed after the checkpoint of its last round, before its summary: it trains no further round."""
    spec = spec_of(2)
    partition(Workspace(project), spec)
    merge, seen = training._merge, []

    def killed(*arguments: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(training, "_merge", killed)
    with pytest.raises(KeyboardInterrupt):
        train(Workspace(project), spec, MACHINE)
    monkeypatch.setattr(training, "_merge", merge)
    first = Federation._round

    def counted(self: Federation) -> Any:
        seen.append(self.round)
        return first(self)

    monkeypatch.setattr(Federation, "_round", counted)
    assert train(Workspace(project), spec, MACHINE)["rounds"] == 2
    assert seen == []


def test_patience_names_other_runs_and_the_default_none() -> None:
    """Digests of runs without it are as before."""
    plain, patient = spec_of(None), spec_of(2)
    assert "patience" not in plain.model_dump(exclude_defaults=True)["federation"]
    assert digest(plain) != digest(patient)
