"""Which tests run which line, and how long each takes: found once for each test file, and again where it or the source changes."""

import hashlib
import json
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.mutants.forks import ROOT, Tree
from tests.mutants.sites import files

FOLDERS = ("analysis", "contract", "evaluations", "federation", "methods", "models")
READ = ("src", "tests", "reference", "experiments")
PATIENCE = 1800.0  # seconds for one test file, traced


@dataclass
class Covering:
    """seconds: test -> what it takes of a processor, set-up included; at: file -> line -> tests."""

    seconds: dict[str, float] = field(default_factory=dict)
    at: dict[str, dict[int, set[str]]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(set)))

    def tests(self, file: str, lines: Iterable[int]) -> list[str]:
        """Tests that run any of the lines, the fastest first."""
        found = set().union(*(self.at[file].get(line, set()) for line in lines))
        return sorted(found, key=lambda test: (self.seconds[test], test))

    def add(self, recorded: dict[str, Any]) -> None:
        """What was recorded of one test file."""
        for test, (seconds, lines) in recorded.items():
            self.seconds[test] = seconds
            for file, numbers in lines.items():
                for number in numbers:
                    self.at[file][number].add(test)


class Recorder:
    """A pytest plugin: the lines of `sources` that each test runs, those of its own fixtures included."""

    def __init__(self, root: Path, sources: list[str], target: Path) -> None:
        import coverage

        self.root, self.target = root, target
        self.coverage = coverage.Coverage(
            data_file=None, config_file=False, include=[str(root / source) for source in sources]
        )
        self.seconds: dict[str, float] = {}
        self.failed: set[str] = set()
        self.skipped: set[str] = set()

    def pytest_sessionstart(self) -> None:
        self.coverage.start()

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.coverage.switch_context(nodeid)
        self.seconds[nodeid] = -time.process_time()

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self.seconds[nodeid] += time.process_time()

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self.failed.add(report.nodeid)
        elif report.skipped:
            self.skipped.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        self.coverage.stop()
        data = self.coverage.get_data()
        lines: defaultdict[str, defaultdict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        for file in data.measured_files():
            for line, tests in data.contexts_by_lineno(file).items():
                for test in tests:
                    lines[test][str(Path(file).relative_to(self.root))].append(line)
        left = {
            test: (self.seconds[test], lines[test])
            for test in self.seconds
            if test not in self.failed | self.skipped
        }
        self.target.write_text(json.dumps({"tests": left, "failed": sorted(self.failed)}))


def test_files() -> list[str]:
    """The test files that are played, seen from the checkout."""
    found = [path for folder in FOLDERS for path in sorted((ROOT / "tests" / folder).rglob("test_*.py"))]
    return [path.relative_to(ROOT).as_posix() for path in found]


def stored(folder: Path, tests: Iterable[str]) -> Iterator[tuple[str, Path]]:
    """Test file -> where its record is, or is to be written: named by a hash of it and of everything that all tests read."""
    common = hashlib.sha256()
    for path in sorted(path for place in READ for path in (ROOT / place).rglob("*") if path.is_file()):
        unread = "__pycache__" in path.parts or path.is_relative_to(ROOT / "tests" / "mutants")
        if not unread and not path.name.startswith("test_"):
            common.update(path.relative_to(ROOT).as_posix().encode() + path.read_bytes())
    for file in tests:
        digest = hashlib.sha256(common.digest() + (ROOT / file).read_bytes()).hexdigest()[:16]
        yield file, folder / f"{Path(file).stem}-{digest}.json"


def record(tree: Tree, file: str, target: Path) -> None:
    """Play one test file under coverage; raises where it fails for another reason than a test."""
    recorder = Recorder(tree.root, files(tree.root), target)
    code = tree.play(["--maxfail=1000000", file], PATIENCE, recorder)
    if code not in (0, 1, 5):
        raise RuntimeError(f"{file} ends with {code}:\n{tree.output[-3000:]}")


def load(paths: Iterable[Path]) -> Covering:
    """All records together; names tests that fail without any mutant, which then notice none."""
    covering, failed = Covering(), []
    for path in paths:
        recorded = json.loads(path.read_text())
        covering.add(recorded["tests"])
        failed += recorded["failed"]
    if failed:
        print(f"left out, since they fail without a mutant: {', '.join(failed)}")
    return covering
