"""Which packs are done, and which are asked for again."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedshift.common.files import locked, write_bytes, write_json
from fedshift.storage.rundir import RunDirectory, State
from fedshift.storage.workspace import Workspace

FAILURE = {"kind": "FedshiftError", "text": "loss is not a number", "retry": False}


def finished(workspace: Workspace, name: str) -> RunDirectory:
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
    good, bad, missing = finished(workspace, "a"), failed(workspace, "b", False), workspace.run("c")
    stamp = workspace.pack("p")
    assert stamp.digests() == set()
    assert not stamp.write([good, missing]) and workspace.packs() == []
    assert stamp.write([good, bad])
    assert workspace.packs() == [stamp]
    assert stamp.finished() == {"a": {"name": "a"}} and stamp.failed() == {"b": FAILURE}
    assert stamp.digests() == {"a", "b"}


def test_a_stamp_of_earlier_versions_is_read_by_digests(tmp_path: Path) -> None:
    stamp = Workspace(tmp_path).pack("p")
    write_json(
        stamp.path, {"pack": "p", "finished": {"a-0123": {"name": "a"}}, "failed": {"b-0123": FAILURE}}
    )
    assert stamp.finished() == {"a": {"name": "a"}} and stamp.failed() == {"b": FAILURE}
    assert stamp.settle([finished(Workspace(tmp_path), "a"), failed(Workspace(tmp_path), "b", False)])
    assert stamp.digests() == {"a", "b"}


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
    run, other = finished(workspace, "a"), finished(workspace, "b")
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
    good, bad, stamp = finished(workspace, "a"), failed(workspace, "b", False), workspace.pack("p")
    assert stamp.settle([good, bad])
    stamp.path.write_bytes(torn)
    assert stamp.settle([good, bad]) and stamp.digests() == {"a", "b"}


def test_a_stamp_follows_a_run_that_was_finished_by_hand(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    run, stamp = failed(workspace, "a", False), workspace.pack("p")
    assert stamp.settle([run]) and set(stamp.failed()) == {"a"}
    finished(workspace, "a")
    assert stamp.settle([run]) and set(stamp.finished()) == {"a"} and not stamp.failed()


def test_a_run_that_is_to_be_tried_again_keeps_its_reason_and_loses_its_stamp(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    good, bad, retried = finished(workspace, "a"), failed(workspace, "b", False), failed(workspace, "c", True)
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
