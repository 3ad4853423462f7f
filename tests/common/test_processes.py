"""Work in processes of its own, and home folders that cannot be written."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fedshift.common import processes
from fedshift.common.errors import FedshiftError
from fedshift.common.processes import spare_home, spread

PARENT = """
import sys, time
from fedshift.common import processes
from tests.common.test_processes import asleep
if __name__ == "__main__":
    processes.usable_cores = lambda: 2
    with processes.spread(2) as each:
        list(each(asleep, [sys.argv[1]] * 2))
"""


@pytest.fixture(params=[1, 2])
def cores(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    number: int = request.param
    monkeypatch.setattr(processes, "usable_cores", lambda: number)
    return number


def told(item: int) -> tuple[int, int]:
    return item, os.getpid()


def refuse(item: int) -> int:
    if item == 1:
        raise FedshiftError("a.yaml", "is no file", "Write it.", retry=True)
    return item


def asleep(folder: str) -> None:
    (Path(folder) / str(os.getpid())).touch()
    time.sleep(600)


def test_results_come_in_order_from_other_processes(cores: int) -> None:
    with spread(5) as each:
        results = list(each(told, range(5)))
    assert [item for item, _ in results] == [*range(5)]
    assert ({pid for _, pid in results} == {os.getpid()}) is (cores == 1)


def test_an_error_is_raised_whole_at_its_item(cores: int) -> None:
    with pytest.raises(FedshiftError) as raised, spread(3) as each:
        results = each(refuse, range(3))
        assert next(results) == 0
        next(results)
    assert vars(raised.value) == {"where": "a.yaml", "what": "is no file", "cure": "Write it.", "retry": True}
    assert str(raised.value) == "a.yaml: is no file\n  Write it."


def test_processes_end_with_a_killed_parent(tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    (tmp_path / "began").mkdir()
    paths = os.pathsep.join(filter(None, [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]))
    command = [sys.executable, str(script), str(tmp_path / "began")]
    with subprocess.Popen(command, env={**os.environ, "PYTHONPATH": paths}) as parent:
        while len(began := [*(tmp_path / "began").iterdir()]) < 2:
            assert parent.poll() is None
            time.sleep(0.05)
        parent.kill()
    until = time.monotonic() + 60
    while any(map(lives, began)):
        assert time.monotonic() < until, "processes of a killed one live on"
        time.sleep(0.05)


def lives(began: Path) -> bool:
    """Whether the process is there, and no zombie that nobody has waited for."""
    stat = Path(f"/proc/{began.name}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


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
