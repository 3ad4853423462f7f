"""`fedshift release`: which runs may be freed."""

from __future__ import annotations

import os
from pathlib import Path

from click.testing import CliRunner

from fedshift.cli import main
from fedshift.common.files import write_json
from fedshift.common.lock import holder, locked
from fedshift.storage.rundir import RunDirectory

GONE = {"host": "a-machine-that-is-gone", "pid": 12, "born": "1", "job": None}


def release(*runs: Path) -> tuple[int, str]:
    result = CliRunner().invoke(main, ["release", *map(str, runs)])
    return result.exit_code, result.output


def test_runs_of_a_machine_that_is_gone_are_freed(tmp_path: Path) -> None:
    runs = [RunDirectory(tmp_path / name) for name in ("a", "b")]
    for run in runs:
        write_json(run.lock, GONE)
        assert run.writer() == GONE  # nobody here can know
    assert release(*(run.path for run in runs)) == (
        0,
        "".join(f"{run.path}: freed; it was held by a-machine-that-is-gone:12\n" for run in runs),
    )
    assert [run.writer() for run in runs] == [None, None]
    assert release(runs[0].path) == (0, f"{runs[0].path}: nobody holds it\n")


def test_a_torn_lock_is_freed(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    run.lock.write_bytes(b"")
    assert release(tmp_path) == (0, f"{tmp_path}: freed; it was held by somebody: its lock is torn\n")
    assert not run.lock.exists()


def test_a_living_process_of_this_machine_is_to_be_stopped_first(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    with locked(run.lock):
        code, said = release(tmp_path)
        assert code == 2 and f"Stop it first: kill {os.getpid()}" in said
        assert (holder(run.lock) or {})["pid"] == os.getpid()
