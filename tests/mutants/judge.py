"""Whether a test notices a mutant."""

import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tests.mutants.covering import Covering
from tests.mutants.draw import Drawn
from tests.mutants.forks import TIMED_OUT, Tree
from tests.mutants.sites import Key

OUTCOMES = ("killed", "timed out", "survived", "uncovered", "equivalent")
BATCHES = (2.0, 8.0, 30.0)  # seconds of tests that are played before the next are; then all others
NOTICED = {1: "fails", 2: "cannot be imported", 4: "cannot be imported"}  # pytest's exit status


@dataclass(frozen=True)
class Verdict:
    """outcome: one of OUTCOMES; code, becomes: the changed lines; by: the test that failed first; tests: how many run the lines."""

    file: str
    within: str
    operator: str
    code: str
    becomes: str
    outcome: str
    by: str = ""
    tests: int = 0
    seconds: float = 0.0

    @property
    def key(self) -> Key:
        return (self.file, self.within, self.operator, self.code, self.becomes)

    @property
    def noticed(self) -> bool:
        return self.outcome in ("killed", "timed out")


def judge(tree: Tree, covering: Covering, drawn: Drawn) -> Verdict:
    """Play the tests that run the changed lines, the fastest first, to the first that fails."""
    began, mutant = time.monotonic(), drawn.mutant
    tests = covering.tests(mutant.file, mutant.lines)
    outcome, by = "survived" if tests else "uncovered", ""
    with tree.mutated(mutant.file, drawn.code):
        for batch, seconds in batches(tests, covering.seconds):
            status = tree.play(batch, 30 + 10 * seconds)
            if status in TIMED_OUT:
                outcome = "timed out"
            elif status < 0 or status in NOTICED:
                outcome, by = "killed", _failed(tree.output) or NOTICED.get(status, f"signal {-status}")
            elif status:
                raise RuntimeError(f"{drawn.key}: pytest ends with {status}\n{tree.output[-3000:]}")
            if status:
                break
    return Verdict(*drawn.key, outcome, by, len(tests), round(time.monotonic() - began, 1))


def batches(tests: Sequence[str], seconds: dict[str, float]) -> Iterator[tuple[list[str], float]]:
    """Groups of growing duration: a fork costs a second, and most mutants fall early."""
    limits, batch, total = iter(BATCHES), [], 0.0
    limit = next(limits)
    for test in tests:
        batch.append(test)
        total += seconds[test]
        if total >= limit:
            yield batch, total
            batch, total, limit = [], 0.0, next(limits, float("inf"))
    if batch:
        yield batch, total


def _failed(output: str) -> str:
    found = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", output, re.MULTILINE)
    return found[1] if found else ""
