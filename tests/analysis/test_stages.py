"""benchmarks/stages.py: the same runs read after local training and after aggregation."""

from __future__ import annotations

import sys

import pytest

from benchmarks import stages
from tests.analysis.conftest import Project, accuracy


def test_each_stage_is_read_by_itself(
    project: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """FedBN's clients have 50 and 70% right after training, 20 and 30% after aggregation; FedAvg's have one model."""
    project.declare(methods={"fedbn": None, "fedavg": None}, axes={"seed": [0]})
    personal = {"model": "personal", "stage": "post_train"}
    after = {"model": "personal", "stage": "post_agg", "client": 0, "split": "test"}
    extra = [
        {**after, "round": r, "client": client, "value": value}
        for r, values in ((1, (0.2, 0.3)), (2, (0.2, 0.4)))
        for client, value in enumerate(values)
    ]
    project.add("fedbn", {1: accuracy((0.5, 0.7)), 2: accuracy((0.5, 0.9))}, seed=0, extra=extra, **personal)
    project.add("fedavg", {1: accuracy((0.4, 0.4)), 2: accuracy((0.4, 0.6))}, seed=0)
    project.collect()
    command = ["stages.py", project.name, "--metrics", "id", "--rounds", "1", "2"]
    monkeypatch.setattr(sys, "argv", [*command, "--root", str(project.workspace.root)])
    stages.main()
    assert capsys.readouterr().out.splitlines()[2:] == [
        "| fedbn | after aggregation | 30.00 | 27.50 |",
        "| fedbn | after local training | 70.00 | 65.00 |",
        "| fedavg | after aggregation | 50.00 | 45.00 |",
    ]
