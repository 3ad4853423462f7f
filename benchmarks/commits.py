"""Archived runs against commits: is the code of a run that of the commit which it names, also where files differed from that (`+`)? Where a run names
none, which commit has its code? Figures: docs/archive.md.

python benchmarks/commits.py          # two minutes; needs the whole history of the repository
"""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

from fedshift.archive import store
from fedshift.archive.file import Archived
from fedshift.storage.workspace import Workspace

ROOT = Path(__file__).resolve().parents[1]
READ = """
import json, sys
from fedshift.identity import code
from fedshift.spec import RunSpec
print(json.dumps([code(RunSpec.model_validate(spec)) for spec in json.load(sys.stdin)]))
"""  # by the code of the commit itself
DEEP = 60  # commits before a run was finished, through which its code is looked for


def git(*words: str) -> bytes:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, check=True).stdout


def codes_at(commit: str, runs: list[Archived]) -> list[str]:
    """What the code of a commit calls itself for each run, found by a process that imports it; "" where it cannot read them."""
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(fileobj=BytesIO(git("archive", commit, "src"))) as source:
            source.extractall(folder, filter="data")
        done = subprocess.run(
            [sys.executable, "-c", READ], capture_output=True, check=False, cwd=folder,
            env={"PYTHONPATH": f"{folder}/src"}, input=json.dumps([one.summary["spec"] for one in runs]).encode(),
        )  # fmt: skip
    found: list[str] = json.loads(done.stdout) if done.returncode == 0 else [""] * len(runs)
    return found


def having(runs: list[Archived], first: list[str]) -> str:
    """A commit from before they were finished that has the code of these runs, which is one: of `first`, else the newest; "" where none was found."""
    before = f"@{min(one.index.finished for one in runs):.0f}"
    newest = git("log", f"-{DEEP}", "--format=%h", f"--before={before}", "--", "src").decode().split()
    return next((commit for commit in first + newest if codes_at(commit, runs[:1]) == [runs[0].code]), "")


def rows(every: list[Archived]) -> Iterator[tuple[str, int, int, int]]:
    """Commit, its runs, those of them with `+`, and those of its code."""
    named: dict[str, list[Archived]] = defaultdict(list)
    unnamed: dict[str, list[Archived]] = defaultdict(list)
    for one in sorted(every, key=lambda one: one.index.finished):
        commit = one.summary["environment"].get("commit") or ""
        (named[commit.partition(" ")[0]] if commit else unnamed[one.code]).append(one)
    known: list[str] = []
    for of_one_code in unnamed.values():
        commit = having(of_one_code, known)
        known += [commit] * bool(commit)
        yield f"none named; `{commit[:7]}` has it", len(of_one_code), 0, len(of_one_code) * bool(commit)
    for commit, runs in named.items():
        equal = sum(one.code == at for one, at in zip(runs, codes_at(commit, runs), strict=True))
        marked = sum(" " in one.summary["environment"]["commit"] for one in runs)
        yield f"`{commit[:7]}`", len(runs), marked, equal


def main() -> None:
    print("| commit | runs | of which + | of its code |\n|---|---:|---:|---:|")
    total = [0, 0, 0]
    for name, *counts in rows([*store.files(Workspace(ROOT))]):
        total = [known + count for known, count in zip(total, counts, strict=True)]
        print(f"| {name} | {' | '.join(map(str, counts))} |", flush=True)
    print(f"| all | {' | '.join(map(str, total))} |")


if __name__ == "__main__":
    main()
