"""Files and folders that are whole or absent, and exactly one writer a run."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from fedshift.common.errors import FedshiftError
from fedshift.common.files import Locked, built_once, holder, read_json, this_process
from fedshift.common.files import locked as run_locked
from tests.conftest import ROOT


def build(folder: Path, text: str = "whole", error: BaseException | None = None) -> bool:
    """Whether this call built the folder."""
    with built_once(folder) as part:
        if part is not None:
            (part / "content").write_text(text)
            if error:
                raise error
    return part is not None


def test_a_folder_is_built_once_and_is_whole(tmp_path: Path) -> None:
    folder = tmp_path / "data" / "made"
    assert build(folder, "first") and not build(folder, "second")
    assert [path.name for path in folder.parent.iterdir()] == ["made"]
    assert {path.name: path.read_text() for path in folder.iterdir()} == {"content": "first"}


@pytest.mark.parametrize(
    ("error", "left"),
    [
        (FedshiftError("here", "cannot be read"), []),
        (FedshiftError("here", "disk full", retry=True), ["content"]),
        (KeyboardInterrupt(), ["content"]),
    ],
)
def test_what_is_not_whole_gets_no_name(tmp_path: Path, error: BaseException, left: list[str]) -> None:
    """What another try cannot mend is removed, else the next builder finds it."""
    folder, part = tmp_path / "made", tmp_path / ".made.part"
    with pytest.raises(type(error)):
        build(folder, error=error)
    assert not folder.exists()
    assert sorted(path.name for path in part.glob("*")) == left
    (tmp_path / ".made.part").mkdir(exist_ok=True)
    (part / ".content.1.tmp").touch()  # of a writer that was killed
    assert build(folder)
    assert [path.name for path in tmp_path.iterdir()] == ["made"]
    assert [path.name for path in folder.iterdir()] == ["content"]


def test_who_asks_meanwhile_waits(tmp_path: Path) -> None:
    folder, built = tmp_path / "made", list[bool]()
    with built_once(folder) as part:
        assert part is not None
        waiting = threading.Thread(target=lambda: built.append(build(folder)))
        waiting.start()
        waiting.join(0.3)
        assert waiting.is_alive() and not built
    waiting.join(10)
    assert built == [False] and list(folder.iterdir()) == []


def test_who_asks_while_it_gets_its_name_builds_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, built, rename = tmp_path / "made", list[bool](), Path.rename
    asking = threading.Thread(target=lambda: built.append(build(folder, "second")))

    def slowly(path: Path, target: Path) -> Path:
        monkeypatch.undo()
        asking.start()
        asking.join(0.3)
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", slowly)
    assert build(folder, "first")
    asking.join(10)
    assert built == [False]
    assert {path.name: path.read_text() for path in folder.iterdir()} == {"content": "first"}


def test_who_may_read_a_file_the_umask_says(tmp_path: Path) -> None:
    """Tensors too, which safetensors writes for their owner alone."""
    program = """
import sys; from pathlib import Path; import torch
from fedshift.common.files import write_json; from fedshift.common.tensors import write_tensors
write_json(Path(sys.argv[1], "a"), {}); write_tensors(Path(sys.argv[1], "b"), {"x": torch.ones(2)}, {})
"""
    command = ["sh", "-c", 'umask 002; exec "$@"', "sh", sys.executable, "-c", program, str(tmp_path)]
    subprocess.run(command, check=True)
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o664}


def test_a_torn_json_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('{"a":')
    with pytest.raises(FedshiftError, match=r"x\.json: is not whole"):
        read_json(tmp_path / "x.json")
    assert read_json(tmp_path / "absent") is None


HOLD = "import sys, time; from pathlib import Path; from fedshift.common.files import locked\nwith locked(Path(sys.argv[1])): print('held', flush=True); time.sleep(60)"


def start(path: Path) -> subprocess.Popen[str]:
    """A process that takes a lock and keeps it; tests of other modules use it, too."""
    return subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def held(path: Path) -> subprocess.Popen[str]:
    """The same, once it has the lock."""
    process = start(path)
    assert process.stdout is not None and process.stdout.readline() == "held\n"
    return process


def end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


@pytest.mark.parametrize("before", ["killed", "torn"])
def test_of_eight_processes_one_wins(before: str, tmp_path: Path) -> None:
    path = tmp_path / "lock.json"
    if before == "killed":
        end(held(path))
        assert path.exists() and holder(path) is None
    else:
        path.write_bytes(b'{"host')
    every = [start(path) for _ in range(8)]
    for _ in range(300):
        if sum(one.poll() is not None for one in every) == 7:
            break
        time.sleep(0.1)
    (winner,) = [one for one in every if one.poll() is None]
    assert (who := holder(path)) is not None and who.pid == winner.pid and who.host == this_process().host
    winner.kill()
    for one in every:
        _, told = one.communicate()
        assert one is winner or f"is being trained by {who.host}:{winner.pid}" in told
    assert holder(path) is None


def test_one_after_the_other_each_alone(tmp_path: Path) -> None:
    """As fast as they can, while others look who holds the lock."""
    program = """import sys; from pathlib import Path; from fedshift.common.files import Locked, holder, locked
path, turns = Path(sys.argv[1]), 0
while turns < 20:
    holder(path)
    try:
        with locked(path):
            (path.parent / "alone").touch(exist_ok=False)
            (path.parent / "alone").unlink()
            turns += 1
    except Locked:
        pass
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-c", program, str(tmp_path / "run" / "lock.json")]
    every = [subprocess.Popen(command, env=environment) for _ in range(4)]
    assert [one.wait(timeout=60) for one in every] == [0] * 4
    assert not list((tmp_path / "run").iterdir())


def test_the_holder_is_named_with_its_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    with run_locked(tmp_path / "lock.json"):
        assert holder(tmp_path / "lock.json") == this_process()
        with pytest.raises(Locked) as error, run_locked(tmp_path / "lock.json"):
            pass
    assert error.value.where == str(tmp_path) and error.value.retry and "lock.json" in error.value.cure
    assert f"{os.getpid()}, Slurm job 7" in error.value.what
    assert holder(tmp_path / "lock.json") is None and not list(tmp_path.iterdir())


def test_a_lock_that_was_removed_is_free_and_its_holder_removes_no_other(tmp_path: Path) -> None:
    """What the message says to do where a machine is gone and its file server does not know."""
    path = tmp_path / "lock.json"
    with run_locked(path):
        path.unlink()
        other = held(path)
    assert (who := holder(path)) is not None and who.pid == other.pid
    end(other)


def test_a_lock_below_a_link_to_nothing_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "results").symlink_to(tmp_path / "unmounted")
    with pytest.raises(FedshiftError, match="cannot be locked"):
        build(tmp_path / "results" / "data" / "made")
