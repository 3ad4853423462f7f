"""Which packs are done, and which are asked for again."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedshift.common.lock import locked
from fedshift.storage.packstamp import forget_failures, stamp_finished
from fedshift.storage.rundir import RunDirectory, State
from fedshift.storage.workspace import Workspace

FAILURE = {"kind": "FedshiftError", "text": "loss is not a number", "retry": False}


def finished(workspace: Workspace, name: str) -> RunDirectory:
    run = workspace.run(name)
    run.finish({"name": name})
    return run


def failed(workspace: Workspace, name: str, retry: bool) -> RunDirectory:
    run = workspace.run(name)
    run.fail({**FAILURE, "retry": retry})
    return run


def test_a_stamp_holds_summaries_and_failures_of_a_pack_that_is_done(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    good, bad, missing = finished(workspace, "a"), failed(workspace, "b", False), workspace.run("c")
    stamp = workspace.pack("p")
    assert stamp.names() == set()
    assert not stamp.write([good, missing]) and workspace.packs() == []
    assert stamp.write([good, bad])
    assert workspace.packs() == [stamp]
    assert stamp.finished() == {"a": {"name": "a"}} and stamp.failed() == {"b": FAILURE}
    assert stamp.names() == {"a", "b"}


def test_a_stamp_that_says_the_same_is_left_alone(tmp_path: Path) -> None:
    """Or Snakemake would make everything behind it anew."""
    workspace = Workspace(tmp_path)
    good, stamp = finished(workspace, "a"), workspace.pack("p")
    assert stamp.write([good])
    before = stamp.path.stat().st_ino
    assert stamp.write([good]) and stamp.path.stat().st_ino == before
    good.finish({"name": "other"})
    assert stamp.write([good]) and stamp.finished() == {"a": {"name": "other"}}


def test_what_a_kill_after_the_summary_left_goes_once_nobody_writes(tmp_path: Path) -> None:
    """A checkpoint of a finished run, and the failure of an attempt before."""
    workspace = Workspace(tmp_path)
    run, stamp = finished(workspace, "a"), workspace.pack("p")
    run.fail(FAILURE)
    run.checkpoint.write_bytes(b"weights")
    with locked(run.lock):
        assert stamp.write([run]) and run.checkpoint.is_file() and run.failure()
    assert stamp.write([run]) and stamp.finished() == {"a": {"name": "a"}}
    assert not run.checkpoint.exists() and run.failure() is None


def test_a_torn_summary_takes_the_stamp_with_it(tmp_path: Path) -> None:
    """The stamp said that there was nothing to do, for ever."""
    workspace = Workspace(tmp_path)
    run = finished(workspace, "a")
    stamp = workspace.pack("p")
    stamp_finished([(stamp, [run])])
    assert set(stamp.names()) == {run.name}
    run.summary_file.write_bytes(b"")
    stamp_finished([(stamp, [run])])
    assert not stamp.path.exists()
    stamp_finished([(stamp, [workspace.run("never")])])
    assert not stamp.path.exists()


def test_a_torn_stamp_counts_as_never_written(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    good, stamp = finished(workspace, "a"), workspace.pack("p")
    assert stamp.write([good])
    stamp.path.write_bytes(b"")
    assert stamp.names() == set()
    assert stamp.write([good]) and stamp.names() == {"a"}


@pytest.mark.parametrize("torn", [b"", b'{"pack": "p', bytes(40)])
def test_a_torn_stamp_is_mended_or_goes(torn: bytes, tmp_path: Path) -> None:
    """Snakemake sees a file, and would ask for nothing."""
    workspace = Workspace(tmp_path)
    good, bad = finished(workspace, "a"), failed(workspace, "b", False)
    for runs, left in (([good], {"a"}), ([good, bad], set())):
        stamp = workspace.pack("p")
        assert stamp.write(runs) and not stamp.torn
        stamp.path.write_bytes(torn)
        assert stamp.torn
        stamp_finished([(stamp, runs)])
        assert stamp.names() == left and stamp.path.exists() == bool(left)


def test_failures_for_good_are_forgotten_with_exactly_the_stamps_that_name_them(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    good, bad, retried = finished(workspace, "a"), failed(workspace, "b", False), failed(workspace, "c", True)
    stamps = [workspace.pack(name) for name in ("good", "bad", "retried")]
    assert stamps[0].write([good]) and stamps[1].write([bad])
    assert not stamps[2].write([retried])  # snakemake tries it again by itself
    assert forget_failures([good, bad, retried], stamps) == 1
    assert workspace.packs() == [stamps[0]]
    assert [run.outcome() for run in (good, bad, retried)] == [State.FINISHED, State.MISSING, State.FAILED]
