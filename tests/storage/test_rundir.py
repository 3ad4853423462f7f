"""How far a run is by the files of its directory, which packs are done, which errors are final."""

import errno
import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pyarrow as pa
import pytest
import torch

from fedshift.common.errors import Damaged, FedshiftError
from fedshift.common.files import locked, this_process, write_bytes
from fedshift.storage.rundir import RunDirectory, State, failure_of
from fedshift.storage.workspace import Workspace
from tests.conftest import ROOT

FAILURE = {"kind": "FedshiftError", "text": "loss is not a number", "retry": False}


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return RunDirectory(tmp_path / "seed0" / "d1ce")


def write_summary(run: RunDirectory, summary: dict[str, object]) -> None:
    write_bytes(run.metrics, b"PAR1PAR1")
    run.finish(summary)


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
    write_summary(run, {"digest": "d1ce"})
    assert run.state() is run.outcome() is State.FINISHED and run.summary() == {"digest": "d1ce"}
    assert run.failure() is None and not run.failed_for_good


def test_a_finished_run_is_not_failed_whatever_a_killed_process_has_left(run: RunDirectory) -> None:
    write_summary(run, {})
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
    write_summary(run, {})
    assert run.state() is State.FINISHED


@pytest.mark.parametrize("torn", [b"", b'{\n "digest": "d1', bytes(40)])
def test_a_torn_file_counts_as_never_written(run: RunDirectory, torn: bytes) -> None:
    """Empty, cut off or of zeros, as a crash of the machine leaves it: the run is trained again, and commands go on."""
    write_summary(run, {"digest": "d1ce"})
    run.summary_file.write_bytes(torn)
    assert run.state() is run.outcome() is State.MISSING and run.summary() is None
    run.fail(FAILURE)
    run.failure_file.write_bytes(torn)
    assert run.outcome() is State.MISSING and run.failure() is None and not run.failed_for_good


SHAPES = "mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)"
NO_CUDA = FedshiftError("device: cuda", "no working CUDA on n0, where a GPU was requested", "", retry=True)
OF_THE_MACHINE = [
    RuntimeError("CUDA error: uncorrectable ECC error encountered"),
    torch.AcceleratorError("CUDA error: unspecified launch failure"),
    RuntimeError("cuDNN error: CUDNN_STATUS_EXECUTION_FAILED"),
    RuntimeError("NCCL error in: ../ProcessGroupNCCL.cpp:1"),
    RuntimeError("can't start new thread"),
    OSError(errno.EIO, "Input/output error"),
    ImportError("libcudart.so.12: cannot open shared object file"),
    NO_CUDA,
]
OF_THE_MOMENT = [
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"),
    RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate`"),
    RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"),
    MemoryError(),
    OSError(errno.ENOSPC, "No space left on device"),
    Damaged("images.npy", "does not match prepared.json"),
    pa.ArrowInvalid("Parquet magic bytes not found in footer"),
    FedshiftError("results", "cannot be written: disk full", retry=True),
    RuntimeError(SHAPES),
]
FINAL = [
    FedshiftError("run", "the update of client 1 is infinite or NaN"),
    *(kind("no") for kind in (ValueError, TypeError, KeyError, IndexError, AssertionError, AttributeError)),
    NotImplementedError("aggregate"),
    ZeroDivisionError(),
]


@pytest.mark.parametrize(
    ("errors", "retry", "machine"),
    [(OF_THE_MACHINE, True, True), (OF_THE_MOMENT, True, False), (FINAL, False, False)],
)
def test_only_mistakes_in_code_and_declarations_are_final(
    errors: list[Exception], retry: bool, machine: bool
) -> None:
    for error in errors:
        failure = failure_of(error)
        assert (failure["retry"], failure["machine"]) == (retry, machine), error
        assert failure["kind"] == type(error).__name__ and failure["text"] == str(error)


def finished_run(workspace: Workspace, name: str) -> RunDirectory:
    run = workspace.run(name)
    write_bytes(run.metrics, b"PAR1PAR1")
    run.finish({"name": name})
    return run


def failed(workspace: Workspace, name: str, retry: bool) -> RunDirectory:
    run = workspace.run(name)
    run.fail({**FAILURE, "retry": retry})
    return run


def test_a_stamp_holds_summaries_and_failures_of_a_pack_that_is_done(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    good, bad, missing = finished_run(workspace, "a"), failed(workspace, "b", False), workspace.run("c")
    stamp = workspace.pack("p")
    assert stamp.digests() == set()
    assert not stamp.write([good, missing]) and workspace.packs() == []
    assert stamp.write([good, bad])
    assert workspace.packs() == [stamp]
    assert stamp.finished() == {"a": {"name": "a"}} and stamp.failed() == {"b": FAILURE}
    assert stamp.digests() == {"a", "b"}


def test_a_stamp_that_says_the_same_is_left_alone(tmp_path: Path) -> None:
    """Or Snakemake would make everything behind it anew."""
    workspace = Workspace(tmp_path)
    good, stamp = finished_run(workspace, "a"), workspace.pack("p")
    assert stamp.write([good])
    before = stamp.path.stat().st_ino
    assert stamp.write([good]) and stamp.path.stat().st_ino == before
    good.finish({"name": "other"})
    assert stamp.write([good]) and stamp.finished() == {"a": {"name": "other"}}


def test_what_a_kill_after_the_summary_left_goes_once_nobody_writes(tmp_path: Path) -> None:
    """A checkpoint of a finished_run run, and the failure of an attempt before."""
    workspace = Workspace(tmp_path)
    run, stamp = finished_run(workspace, "a"), workspace.pack("p")
    run.fail(FAILURE)
    run.checkpoint.write_bytes(b"weights")
    with locked(run.lock):
        assert stamp.write([run]) and run.checkpoint.is_file() and run.failure()
    assert stamp.write([run]) and stamp.finished() == {"a": {"name": "a"}}
    assert not run.checkpoint.exists() and run.failure() is None


@pytest.mark.parametrize(
    ("name", "torn"),
    [
        ("summary.json", None),
        ("summary.json", b""),
        ("metrics.parquet", b"PA"),
        ("metrics.parquet", bytes(40)),
    ],
)
def test_a_lost_or_torn_file_of_a_finished_run_takes_the_stamp_with_it(
    name: str, torn: bytes | None, tmp_path: Path
) -> None:
    """The stamp said that there was nothing to do, for ever."""
    workspace = Workspace(tmp_path)
    run, other = finished_run(workspace, "a"), finished_run(workspace, "b")
    stamp = workspace.pack("p")
    assert stamp.settle([run, other]) and stamp.digests() == {"a", "b"}
    if torn is None:
        (run.path / name).unlink()
    else:
        (run.path / name).write_bytes(torn)
    assert run.outcome() is State.MISSING and run.summary() is None
    assert not stamp.settle([run, other]) and not stamp.path.exists()
    assert not stamp.settle([other, workspace.run("never")]) and not stamp.path.exists()


@pytest.mark.parametrize("torn", [b"", b'{"pack": "p', bytes(40)])
def test_a_torn_stamp_is_written_again(torn: bytes, tmp_path: Path) -> None:
    """Snakemake sees a file, and would ask for nothing."""
    workspace = Workspace(tmp_path)
    good, bad, stamp = finished_run(workspace, "a"), failed(workspace, "b", False), workspace.pack("p")
    assert stamp.settle([good, bad])
    stamp.path.write_bytes(torn)
    assert stamp.settle([good, bad]) and stamp.digests() == {"a", "b"}


def test_a_run_that_is_to_be_tried_again_keeps_its_reason_and_loses_its_stamp(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    good, bad, retried = (
        finished_run(workspace, "a"),
        failed(workspace, "b", False),
        failed(workspace, "c", True),
    )
    stamps = [workspace.pack(name) for name in ("good", "bad", "retried")]
    assert stamps[0].settle([good]) and stamps[1].settle([bad])
    assert not stamps[2].settle([retried])  # snakemake tries it again by itself
    for run in (good, bad, retried):
        run.retry()
    assert [stamp.settle([run]) for stamp, run in zip(stamps, (good, bad, retried), strict=True)] == [
        True, False, False
    ]  # fmt: skip
    assert workspace.packs() == [stamps[0]]
    assert [run.outcome() for run in (good, bad, retried)] == [State.FINISHED, State.FAILED, State.FAILED]
    assert (bad.failure() or {})["text"] == FAILURE["text"] and not bad.failed_for_good


HEAVY = {"torch", "pydantic", "numpy", "pandas", "pyarrow", "click"}


@pytest.mark.parametrize(
    "module", ["storage.workspace", "storage.rundir", "planning.planfile", "planning.job"]
)
def test_what_the_snakefile_imports_is_of_the_standard_library_alone(module: str) -> None:
    program = f"import sys, fedshift.{module}; print(*sys.modules)"
    command, path = [sys.executable, "-c", program], {"PYTHONPATH": str(ROOT / "src")}
    loaded = subprocess.check_output(command, env=path, text=True)
    assert not HEAVY & {name.partition(".")[0] for name in loaded.split()}


def finish_at(run: RunDirectory, at: float) -> RunDirectory:
    """Make it a run that was finished at this time."""
    write_bytes(run.metrics, b"PAR1PAR1")
    run.finish({"at": at})
    os.utime(run.summary_file, (at, at))
    return run


def test_the_newest_finished_run_of_earlier_versions_stands_in_for_one_that_is_not_there(
    tmp_path: Path,
) -> None:
    workspace, name = Workspace(tmp_path), "digits/fedavg/ink/seed0/d1ce"
    path = workspace.results / "runs" / name

    def both() -> RunDirectory:
        assert workspace.run_at(f"results/runs/{name}") == workspace.run(name)
        return workspace.run(name)

    begun, old, newer, other = (
        RunDirectory(path.with_name(name)) for name in ("d1ce-3", "d1ce-2", "d1ce-1", "d1cf-1")
    )
    begun.path.mkdir(parents=True)
    begun.checkpoint.touch()
    finish_at(other, 4e9)
    assert both().path == path
    finish_at(old, 1e9)
    assert both() == old
    finish_at(newer, 2e9)
    assert both() == newer
    newer.summary_file.write_bytes(b"")  # torn
    assert both() == old
    path.mkdir()  # as it is trained again
    assert both().path == path
    assert finish_at(both(), 0.5e9).path == both().path == path
