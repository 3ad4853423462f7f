"""How far a run is, by the files of its directory."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from fedshift.common.files import locked, this_process, write_bytes
from fedshift.storage.rundir import RunDirectory, State
from tests.conftest import ROOT

FILES = ("summary.json", "failure.json", "lock.json", "checkpoint.safetensors")
FAILURE = {"kind": "FedshiftError", "text": "loss is not a number", "retry": False}


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return RunDirectory(tmp_path / "seed0" / "d1ce")


def finish(run: RunDirectory, summary: dict[str, object]) -> None:
    write_bytes(run.metrics, b"PAR1PAR1")
    run.finish(summary)


def test_the_names_of_its_files_stand_in_one_module() -> None:
    sources = [*(ROOT / "src").rglob("*.py"), *(ROOT / "workflow").rglob("*.smk"), ROOT / "Snakefile"]
    speakers = {path.name for path in sources if any(name in path.read_text() for name in FILES)}
    assert speakers == {"rundir.py"}


def test_the_digest_is_the_name_also_of_a_run_of_earlier_versions(run: RunDirectory) -> None:
    earlier = RunDirectory(run.path.with_name("d1ce-c0de"))
    assert (run.name, run.digest) == ("d1ce", "d1ce") and (earlier.name, earlier.digest) == (
        "d1ce-c0de",
        "d1ce",
    )


def test_a_run_is_missing_until_something_is_left_of_it(run: RunDirectory) -> None:
    assert run.state() is run.outcome() is State.MISSING
    run.path.mkdir(parents=True)
    run.checkpoint.touch()  # interrupted
    assert run.state() is State.INTERRUPTED and run.outcome() is State.MISSING
    assert run.summary() is None and run.failure() is None and run.writer() is None
    assert not run.failed_for_good


def test_a_run_that_fails_is_failed_until_it_is_finished(run: RunDirectory) -> None:
    run.fail(FAILURE)
    assert run.state() is run.outcome() is State.FAILED and run.failure() == FAILURE and run.failed_for_good
    run.fail({**FAILURE, "retry": True})
    assert run.outcome() is State.FAILED and not run.failed_for_good
    finish(run, {"digest": "d1ce"})
    assert run.state() is run.outcome() is State.FINISHED and run.summary() == {"digest": "d1ce"}
    assert run.failure() is None and not run.failed_for_good


def test_a_finished_run_is_not_failed_whatever_a_killed_process_has_left(run: RunDirectory) -> None:
    finish(run, {})
    run.fail(FAILURE)
    assert run.state() is State.FINISHED and not run.failed_for_good


def test_a_run_is_running_while_the_process_that_holds_its_lock_lives(run: RunDirectory) -> None:
    run.fail(FAILURE)  # an earlier failure; it is being tried again
    with locked(run.lock):
        assert run.state() is State.RUNNING and run.outcome() is State.FAILED
        assert run.writer() == this_process()
    assert run.state() is State.FAILED
    run.lock.write_text(json.dumps(asdict(this_process())))  # left by a process that was killed
    assert run.writer() is None and run.state() is State.FAILED
    finish(run, {})
    assert run.state() is State.FINISHED


@pytest.mark.parametrize("torn", [b"", b'{\n "digest": "d1', bytes(40)])
def test_a_torn_file_counts_as_never_written(run: RunDirectory, torn: bytes) -> None:
    """Empty, cut off or of zeros, as a crash of the machine leaves it: the run is trained again, and commands go on."""
    finish(run, {"digest": "d1ce"})
    run.summary_file.write_bytes(torn)
    assert run.state() is run.outcome() is State.MISSING and run.summary() is None
    run.fail(FAILURE)
    run.failure_file.write_bytes(torn)
    assert run.outcome() is State.MISSING and run.failure() is None and not run.failed_for_good
