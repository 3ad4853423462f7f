"""Plays tests on a copy of the checkout in a forked process, so that torch is imported once and not for every mutant.

The parent imports what the project and its tests import, but neither of them, and computes nothing: a fork starts with these modules
and reads the project from the copy. Needs fork: Linux, macOS.
"""

import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PROJECT = ("fedshift", "tests")
KIND = "not workflow and not slurm and not faults and not mutants and not gpu"
OPTIONS = ("-x", "-q", "--no-header", "-W", "ignore", "-o", "timeout=0", "-p", "pytest_timeout", "-m", KIND)
ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    "FEDSHIFT_SHARED": "/nonexistent",  # the score is the checkout's, wherever it is taken
}
LIST_MODULES = """
import json, pkgutil, importlib, sys, pytest, hypothesis, fedshift
for found in pkgutil.walk_packages(fedshift.__path__, "fedshift."):
    if not found.name.endswith("__main__"):
        importlib.import_module(found.name)
pytest.main(["--collect-only", "-q", "-p", "pytest_timeout", "-p", "no:cacheprovider", "-o", "addopts=", "tests/federation"])
print(json.dumps(list(sys.modules)))
"""


def preload() -> None:
    """Import what the project imports, whose names a process of its own finds out."""
    os.environ.update(ENVIRONMENT)
    command = [sys.executable, "-c", LIST_MODULES]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    for name in json.loads(done.stdout.splitlines()[-1]):
        if name.partition(".")[0] not in (*PROJECT, "__main__", "__mp_main__"):
            try:
                importlib.import_module(name)
            except ImportError:
                continue  # made by another module, under a name that no file has


class Tree:
    """A copy of the checkout's files in an empty folder, of which one source file at a time may be another's."""

    def __init__(self, root: Path) -> None:
        self.root = root / "copy"
        listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        for name in filter(None, subprocess.check_output(listed, cwd=ROOT, text=True).split("\0")):
            if (ROOT / name).exists():
                (self.root / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, self.root / name)

    @contextmanager
    def mutated(self, file: str, code: str) -> Iterator[None]:
        """The file's text is `code` for a while."""
        path = self.root / file
        before, status = path.read_text(), path.stat()
        path.write_text(code)
        try:
            yield
        finally:
            path.write_text(before)
            os.utime(
                path, ns=(status.st_atime_ns, status.st_mtime_ns)
            )  # what was compiled from it counts again

    def compile(self, tests: Sequence[str]) -> None:
        """Keep the bytecode of these tests and of the source: only a mutated file is then compiled anew."""
        if tests:
            self.play(["--collect-only", *tests], 600, compiles=True)

    def play(self, tests: Sequence[str], seconds: float, plugin: Any = None, compiles: bool = False) -> int:
        """pytest's exit status for these tests, stopped at the first failure; negative: the signal that ended it.

        seconds: of a processor, then it is SIGPROF, and ten times as long by the clock, then SIGALRM.
        """
        child = os.fork()
        if child == 0:
            sys.dont_write_bytecode = (
                not compiles
            )  # a mutant of the same second and size would pass for what it was compiled from
            _play(self.root, tests, seconds, plugin)
        _, status = os.waitpid(child, 0)
        with suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)  # what the tests have started and left
        return os.waitstatus_to_exitcode(status)

    @property
    def output(self) -> str:
        """What the last play has printed."""
        return (self.root.parent / "output").read_text(errors="replace")


TIMED_OUT = (-signal.SIGPROF, -signal.SIGALRM)


def _play(root: Path, tests: Sequence[str], seconds: float, plugin: Any) -> None:
    """In the forked process; never returns."""
    code = 70
    try:
        os.setsid()
        for kind, name, limit in (
            (signal.ITIMER_PROF, signal.SIGPROF, seconds),
            (signal.ITIMER_REAL, signal.SIGALRM, 10 * seconds),
        ):
            signal.signal(name, signal.SIG_DFL)
            signal.setitimer(kind, limit)
        output = os.open(root.parent / "output", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.chdir(root)
        os.environ["PYTHONPATH"] = str(root / "src")
        sys.path[:0] = [str(root / "src"), str(root)]
        for name in [name for name in sys.modules if name.partition(".")[0] in PROJECT]:
            del sys.modules[name]
        import pytest

        options = [*OPTIONS, f"--basetemp={root.parent / 'tmp'}", "-p", "no:cacheprovider"]
        code = int(pytest.main([*options, *tests], plugins=[plugin] if plugin else []))
        played = sys.modules.get("fedshift")
        if played is not None and not str(played.__file__).startswith(str(root)):
            print(f"played {played.__file__}, not the copy in {root}")
            code = 71
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
