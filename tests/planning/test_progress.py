"""What is printed while runs train: how many have finished, and how long the others take."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from fedshift.common.files import write_json
from fedshift.planning import progress
from fedshift.planning.planfile import Run
from fedshift.planning.progress import Progress
from fedshift.storage.workspace import Workspace


class Clock:
    def __init__(self) -> None:
        self.now = 1e9

    def time(self) -> float:
        return self.now


def planned(number: int, minutes: float = 2.0, target: str = "ink") -> Run:
    directory = f"results/runs/digits/fedavg/{target}/seed{number}/{number:016x}-c0de"
    return Run(
        f"{number:016x}", "c0de", directory, "digits", "fedavg", target, number, "", "pack", 12, 0, minutes,
        0, 0, "", "",
    )  # fmt: skip


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    return clock


def finish(workspace: Workspace, run: Run, seconds: float) -> None:
    directory = workspace.run_at(run.directory)
    directory.path.mkdir(parents=True, exist_ok=True)
    directory.metrics.write_bytes(b"PAR1PAR1")
    directory.summary_file.write_text(json.dumps({"costs": {"seconds": seconds}}))


def test_a_line_for_what_has_finished_with_the_time_left(tmp_path: Path, clock: Clock) -> None:
    """Runs took twice what was planned, one at a time: eight minutes for the two that are left."""
    workspace, lines = Workspace(tmp_path), list[str]()
    runs = [planned(number) for number in range(4)]
    finish(workspace, runs[0], 1.0)  # before this start
    told = Progress(workspace, lambda: runs, lines.append)
    told.look()
    assert lines == []
    clock.now += 240
    finish(workspace, runs[1], 240.0)
    told.look()
    told.look()
    assert lines == ["2 of 4 runs, fedavg on ink, about 8 min left"]
    more = planned(9, target="none")  # as after a choice
    runs.append(more)
    clock.now += 240
    finish(workspace, runs[2], 240.0)
    finish(workspace, more, 240.0)
    told.look()
    assert lines[1:] == ["4 of 5 runs, fedavg on digits and 1 more, about 4 min left"]
    write_json(workspace.run_at(runs[3].directory).failure_file, {"kind": "V", "text": "", "retry": False})
    told.look(last=True)
    assert len(lines) == 2  # nothing has finished since


def test_what_failed_for_good_takes_no_time(tmp_path: Path, clock: Clock) -> None:
    workspace, lines = Workspace(tmp_path), list[str]()
    runs = [planned(number) for number in range(2)]
    told = Progress(workspace, lambda: runs, lines.append)
    write_json(workspace.run_at(runs[0].directory).failure_file, {"kind": "V", "text": "", "retry": False})
    finish(workspace, runs[1], 60.0)
    told.look()
    assert lines == ["1 of 2 runs, 1 failed, fedavg on ink"]


def test_a_long_run_tells_its_round(tmp_path: Path, clock: Clock) -> None:
    workspace, lines = Workspace(tmp_path), list[str]()
    run = planned(0, minutes=600)
    directory = workspace.run_at(run.directory)
    write_json(directory.lock, {})
    os.utime(directory.lock, (clock.now, clock.now))
    directory.segments.mkdir()
    (directory.segments / "0-7.parquet").touch()
    told = Progress(workspace, lambda: [run], lines.append)
    told.look()
    clock.now += 70
    told.look()
    told.look()
    assert lines == ["0 of 1 runs, fedavg on ink in round 8 of 12, about 1 min left"]  # seven rounds in 70 s
