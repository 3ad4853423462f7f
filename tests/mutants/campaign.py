"""Draws random mutants of what makes the numbers, and plays on each the tests that run the changed line.

python -m tests.mutants.campaign [--seed 0] [--count 400] [--jobs 2] [--only METHOD] [--again]

What it finds out stays below build/mutants: which test runs which line, and the verdicts, seed-<seed>.json.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from multiprocessing.pool import Pool
from pathlib import Path
from typing import Any

from tests.mutants import covering, forks
from tests.mutants.draw import Drawn, equivalents, of_method, sample
from tests.mutants.judge import Verdict, judge
from tests.mutants.score import commit, summary, survivors
from tests.mutants.sites import Key, files


class Worker:
    """A process with a copy of the checkout of its own, forked from one that has imported what the project needs."""

    tree: forks.Tree
    known: covering.Covering

    @classmethod
    def begin(cls, folder: str, tests: list[str], known: covering.Covering) -> None:
        cls.tree, cls.known = forks.Tree(Path(tempfile.mkdtemp(dir=folder))), known
        cls.tree.compile(tests)

    @classmethod
    def record(cls, job: tuple[str, Path]) -> str:
        covering.record(cls.tree, *job)
        return job[0]

    @classmethod
    def judge(cls, job: tuple[int, Drawn]) -> tuple[int, Verdict]:
        return job[0], judge(cls.tree, cls.known, job[1])


@dataclass(frozen=True)
class Campaign:
    """How mutants are played.

    jobs: processes; tests: files; folder: where what is found out is kept; named: keys of equivalent mutants, which are not played.
    """

    jobs: int
    tests: list[str]
    folder: Path
    named: set[Key]

    def verdicts(self, left: dict[int, Drawn]) -> Iterator[tuple[int, Verdict]]:
        """Verdicts on numbered mutants as they come."""
        if not left:
            return
        with tempfile.TemporaryDirectory(prefix="mutants") as folder:
            forks.preload()
            known = self._covering(folder)
            with self._pool(folder, self.tests, known) as pool:
                yield from pool.imap_unordered(Worker.judge, left.items())

    def _covering(self, folder: str) -> covering.Covering:
        """Which tests run which line; finds out what is not known yet."""
        places = list(covering.stored(self.folder / "lines", self.tests))
        missing = [(file, path) for file, path in places if not path.exists()]
        if missing:
            (self.folder / "lines").mkdir(parents=True, exist_ok=True)
            print(f"finding out which test runs which line: {len(missing)} test files", flush=True)
            with self._pool(folder, [], covering.Covering()) as pool:
                for done, file in enumerate(pool.imap_unordered(Worker.record, missing), 1):
                    print(f"  {done:3} {file}", flush=True)
        return covering.load(path for _, path in places)

    def _pool(self, *begin: Any) -> Pool:
        return get_context("fork").Pool(self.jobs, Worker.begin, begin)

    def play(self, seed: int, drawn: list[Drawn], again: bool) -> list[Verdict]:
        """Verdicts on all; with `again` what was noticed the last time is not played once more."""
        report = self.folder / f"seed-{seed}.json"
        last = [Verdict(**one) for one in json.loads(report.read_text())] if again and report.exists() else []
        noticed = {one.key: one for one in last if one.noticed}
        done = {i: noticed[one.key] for i, one in enumerate(drawn) if one.key in noticed}
        done |= {i: Verdict(*one.key, "equivalent") for i, one in enumerate(drawn) if one.key in self.named}
        for i, verdict in self.verdicts({i: one for i, one in enumerate(drawn) if i not in done}):
            done[i] = verdict
            what = f"{verdict.outcome:10} {verdict.seconds:6.1f} s  {verdict.file}: {verdict.becomes}"
            print(f"{len(done):4}/{len(drawn)} {what}", flush=True)
            report.write_text(json.dumps([asdict(done[i]) for i in sorted(done)], indent=1))
        return [done[i] for i in sorted(done)]


def chosen(only: str | None) -> list[str]:
    """Files to draw from: all, a method's, or one."""
    everything = files(forks.ROOT)
    return everything if only is None else [only] if only in everything else of_method(forks.ROOT, only)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=400)
    parser.add_argument("--jobs", type=int, default=2, choices=(1, 2))
    parser.add_argument(
        "--only", metavar="METHOD", help="draw from its file and layers alone, or from this file"
    )
    parser.add_argument("--again", action="store_true", help="do not play what was noticed the last time")
    asked = parser.parse_args()
    began, played = time.monotonic(), commit(forks.ROOT)
    drawn = sample(forks.ROOT, asked.seed, asked.count, chosen(asked.only))
    parts = asked.jobs, covering.test_files(), forks.ROOT / "build" / "mutants", equivalents()
    done = Campaign(*parts).play(asked.seed, drawn, asked.again)
    score = summary(done, forks.ROOT, played, asked.seed, (time.monotonic() - began) / 60)
    print(f"\n{survivors(done)}\n\n{score}")


if __name__ == "__main__":
    main()
