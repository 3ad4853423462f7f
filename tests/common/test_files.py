"""Files and folders that are whole or absent."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from fedshift.common.errors import FedshiftError
from fedshift.common.files import MODE, built_once, locked, read_json


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


def test_a_lock_is_no_program(tmp_path: Path) -> None:
    with locked(tmp_path / "lock"):
        assert (tmp_path / "lock").stat().st_mode & 0o777 == MODE


@pytest.mark.parametrize(("mask", "mode"), [("022", 0o644), ("002", 0o664), ("077", 0o600)])
def test_who_may_read_a_file_the_umask_says(tmp_path: Path, mask: str, mode: int) -> None:
    """Tensors too, which safetensors writes for their owner alone."""
    program = """
import sys; from pathlib import Path; import torch
from fedshift.common.files import write_json; from fedshift.common.formats import write_tensors
write_json(Path(sys.argv[1], "a"), {}); write_tensors(Path(sys.argv[1], "b"), {"x": torch.ones(2)}, {})
"""
    command = ["sh", "-c", f'umask {mask}; exec "$@"', "sh", sys.executable, "-c", program, str(tmp_path)]
    subprocess.run(command, check=True)
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {mode}


def test_a_torn_json_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('{"a":')
    with pytest.raises(FedshiftError, match=r"x\.json: is not whole"):
        read_json(tmp_path / "x.json")
    assert read_json(tmp_path / "absent") is None
