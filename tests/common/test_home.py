"""Home folders that are missing or cannot be written."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fedshift.common.processes import spare_home

VARIABLES = ("HOME", "XDG_CACHE_HOME", "MPLCONFIGDIR")


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """A home folder in which `.cache` cannot be made."""
    for variable in VARIABLES:  # set first, so that all are restored
        monkeypatch.setenv(variable, "")
        monkeypatch.delenv(variable)
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / ".cache").write_text("in the way: root may write anywhere else")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return monkeypatch


def test_a_home_that_cannot_be_written_stays_and_caches_move(
    environment: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    spare_home(tmp_path)
    caches = str(tmp_path / ".cache")
    assert [os.environ.get(name) for name in VARIABLES] == [
        str(tmp_path / "home"), caches, f"{caches}/matplotlib",
    ]  # fmt: skip


@pytest.mark.parametrize("home", ["/dev/null", "/nowhere/at/all"])
def test_a_home_that_is_no_folder_is_replaced(
    environment: pytest.MonkeyPatch, tmp_path: Path, home: str
) -> None:
    environment.setenv("HOME", home)
    spare_home(tmp_path)
    caches = tmp_path / ".cache"
    assert os.environ["HOME"] == os.environ["XDG_CACHE_HOME"] == str(caches) and caches.is_dir()
    assert not Path("/nowhere").exists()


def test_what_can_be_written_stays(environment: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    environment.setenv("XDG_CACHE_HOME", str(tmp_path / "mine"))
    spare_home(tmp_path)
    assert os.environ["XDG_CACHE_HOME"] == str(tmp_path / "mine") and "MPLCONFIGDIR" not in os.environ
    assert not (tmp_path / ".cache").exists()


def test_dvc_and_matplotlib_work_without_a_home(environment: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("dvc")
    environment.setenv("HOME", "/dev/null")
    spare_home(tmp_path)
    for words in (
        ["-m", "dvc", "init", "--no-scm", "-q"],
        ["-m", "dvc", "status"],
        ["-c", "import matplotlib"],
    ):
        done = subprocess.run([sys.executable, *words], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0 and "Not a directory" not in done.stderr, done.stderr
