"""The score of a campaign, as Markdown."""

import os
import platform
import subprocess
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from tests.mutants.draw import HEADLINES, SOURCE, of_method
from tests.mutants.judge import OUTCOMES, Verdict


def summary(done: list[Verdict], root: Path, commit: str, seed: int, minutes: float) -> str:
    """What was drawn where and what became of it, as Markdown."""
    rows = [
        ("all", done),
        *((f"{name} and its layers", _of(done, of_method(root, name))) for name in HEADLINES),
    ]
    rows += [
        (f"`{file.removeprefix(SOURCE + '/')}`", _of(done, [file]))
        for file in sorted({one.file for one in done})
    ]
    seconds = sum(one.seconds for one in done) / max(1, sum(one.seconds > 0 for one in done))
    head = (
        f"Made by `{commit}` on {machine()}: seed {seed}, {len(done)} mutants, "
        f"{minutes:.0f} minutes ({seconds:.1f} s for each that was played).",
        "",
        f"| | drawn | {' | '.join(OUTCOMES)} | noticed |",
        "|---|" + "---|" * (len(OUTCOMES) + 2),
    )
    return "\n".join([*head, *(_row(name, verdicts) for name, verdicts in rows if verdicts)])


def survivors(done: Iterable[Verdict]) -> str:
    """What no test noticed, for somebody who is about to write one."""
    return "\n".join(
        f"{one.file} {one.within} ({one.operator}, {one.tests} tests, {one.outcome})\n  - {one.code}\n  + {one.becomes}"
        for one in done
        if not one.noticed and one.outcome != "equivalent"
    )


def _of(done: list[Verdict], chosen: list[str]) -> list[Verdict]:
    return [one for one in done if one.file in chosen]


def _row(name: str, done: list[Verdict]) -> str:
    counts = Counter(one.outcome for one in done)
    noticed, judged = sum(one.noticed for one in done), len(done) - counts["equivalent"]
    share = f"{100 * noticed / judged:.0f} %" if judged else ""
    return f"| {name} | {len(done)} | {' | '.join(str(counts[outcome]) for outcome in OUTCOMES)} | {share} |"


def commit(root: Path) -> str:
    """What is checked out, as the pages name it."""
    command = ["git", "rev-parse", "--short=7", "HEAD"]
    return subprocess.check_output(command, cwd=root, text=True).strip()


def machine() -> str:
    """The machine in words: cores and processor."""
    info = Path("/proc/cpuinfo")
    names = (
        [line.partition(": ")[2] for line in info.read_text().splitlines() if "model name" in line]
        if info.exists()
        else []
    )
    return f"{os.cpu_count()} cores of {names[0] if names else platform.machine()}"
