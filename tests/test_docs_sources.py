"""Every figure and every table of measured numbers says which commit made it and on which machine, or that nothing was measured."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT

GENERATED = {
    "equations.md",
    "methods.md",
    "protocols.md",
    "results.md",
    "settings.md",
}  # held by docs/generate --check
PAGES = [
    ROOT / "README.md",
    ROOT / "benchmarks" / "README.md",
    *(
        page
        for page in sorted((ROOT / "docs").glob("*.md"))
        if page.name not in GENERATED and not page.name.startswith("add-a")  # instructions, not results
    ),
]
COMMIT = re.compile(r"`([0-9a-f]{7})`")
MADE = re.compile(rf"\bMade by {COMMIT.pattern}.*?\bon \w+", re.DOTALL)
NOT_MEASURED = re.compile(r"no number here was measured|Computed, not measured")
MEASURED = re.compile(r"\d\.\d")  # a table with a decimal fraction


def shown(page: Path) -> Iterator[tuple[int, str]]:
    """The line of each figure and measured table of a page, and the prose that may say where it comes from:
    the page's opening and its section so far."""
    opening = ""
    section: str | None = None
    table: list[str] = []
    for number, line in enumerate([*page.read_text().splitlines(), ""], 1):
        if line.startswith("|"):
            table.append(line)
            continue
        if any(MEASURED.search(row) for row in table[2:]):
            yield number - len(table), opening + (section or "")
        table = []
        if line.startswith("!["):
            yield number, opening + (section or "")
        if line.startswith("## "):
            section = ""
        elif section is None:
            opening += line + "\n"
        else:
            section += line + "\n"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_what_is_measured_says_where_it_comes_from(page: Path) -> None:
    silent = [
        f"{page.relative_to(ROOT)}:{line}"
        for line, prose in shown(page)
        if not MADE.search(prose) and not NOT_MEASURED.search(prose)
    ]
    assert not silent, f"say 'Made by `<commit>` on <machine>' before them: {silent}"


def test_the_commits_are_there() -> None:
    """In a clone with its history; a shallow one, or a release without git, has none to look at."""
    git = ["git", "-C", str(ROOT)]
    shallow = subprocess.run([*git, "rev-parse", "--is-shallow-repository"], capture_output=True, text=True)
    if shallow.stdout.strip() != "false":
        pytest.skip("no history here")
    commits = {found for page in PAGES for found in COMMIT.findall(page.read_text())}
    assert len(commits) > 10
    listed = subprocess.run(
        [*git, "cat-file", "--batch-check"], input="\n".join(sorted(commits)), capture_output=True, text=True
    )
    absent = [line for line in listed.stdout.splitlines() if " commit " not in line]
    assert not absent


def test_a_silent_table_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# Page\n\n## One\n\nMade by `0123abc` on two threads.\n\n| a | b |\n|---|---|\n| 1.5 | x |\n"
    )
    assert [bool(MADE.search(prose)) for _, prose in shown(page)] == [True]
    page.write_text(page.read_text() + "\n## Two\n\n![x](y.png)\n\n| a | b |\n|---|---|\n| 1.5 | x |\n")
    assert [bool(MADE.search(prose)) for _, prose in shown(page)] == [True, False, False]
