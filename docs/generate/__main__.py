"""Fills the generated blocks of pages, between `<!-- made: NAME -->` or `<!-- results: EXPERIMENT/TABLE -->` and
`<!-- end -->`. Writes schemas/*.json and docs/results/claims.csv and coverage.csv.

`make docs` runs it; a test compares the files.
"""

from __future__ import annotations

import argparse
import functools
import re
import sys
from collections.abc import Callable
from pathlib import Path

import front
import printed
import results
import settings
from board import board, hypotheses
from columns import columns
from commands import commands
from methods import methods
from protocols import protocols

from schemas import schema

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"(<!-- (made|results): ([\w/]+) -->\n).*?(<!-- end -->)", re.DOTALL)
MADE: dict[str, Callable[[], str]] = {
    "board": board,
    "columns": columns,
    "commands": commands,
    "hypotheses": hypotheses,
    "figures/kinds": printed.figure_kinds,
    "figures/printed": printed.printed_figures,
    "methods": methods,
    "protocols": protocols,
    "results/claims": printed.judged_claims,
    "results/numbers": printed.judged_numbers,
    "results/papers": printed.papers,
    "results/tables": printed.tables,
    "scorecard/counts": lambda: printed.kept().opening,
    "settings/run": settings.run,
    **{f"settings/{kind}": functools.partial(settings.file, kind) for kind in settings.FILES},
    **{f"settings/{kind}": functools.partial(settings.of, kind) for kind in settings.KINDS},
}
LISTS = {"claims": printed.claims, "coverage": printed.coverage}  # docs/results/NAME.csv


def filled(page: Path) -> str:
    """The text of a page with its blocks as they are now."""

    folder = "docs/results" if page.parent == ROOT else "results"

    def block(found: re.Match[str]) -> str:
        text = MADE[found[3]]() if found[2] == "made" else results.kept(found[3], folder)
        return f"{found[1]}{text.strip()}\n\n{found[4]}"

    return BLOCK.sub(block, page.read_text())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--check",
        action="store_true",
        help="compare instead of writing; exit with status 1 if a file is out of date",
    )
    parser.add_argument(
        "--keep",
        metavar="EXPERIMENT",
        help="first copy its tables and figures from results/ to docs/results; archive: regenerate all that the archive alone makes",
    )
    options = parser.parse_args()
    for name in results.of_the_archive() if options.keep == "archive" else filter(None, [options.keep]):
        if options.keep == "archive":
            results.make(name)
        results.keep(name)
    pages = {page: filled(page) for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))}
    pages |= {ROOT / "docs" / "results" / f"{name}.csv": text() for name, text in LISTS.items()}
    pages |= {ROOT / "schemas" / f"{kind}.json": schema(kind) for kind in settings.FILES}
    pages |= {ROOT / "docs" / "images" / "methods.svg": front.picture()}  # of README.md
    stale = []
    for path, text in pages.items():
        if options.check and (not path.exists() or path.read_text() != text):
            stale.append(path.relative_to(ROOT).as_posix())
        elif not options.check:
            path.write_text(text)
    told = [f"out of date: {', '.join(stale)}. Run: make docs"] * bool(stale)
    if options.check and (edited := results.stale()):
        told.append(f"not as kept: {', '.join(edited)}. Run: python docs/generate --keep EXPERIMENT")
    if told:
        sys.exit("\n".join(told))


if __name__ == "__main__":
    main()
