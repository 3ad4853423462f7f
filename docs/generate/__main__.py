"""Writes what pages show of the code and of kept results: docs/claims.md, columns.md, coverage.md, figures.md,
methods.md, protocols.md, results.md, settings.md, schemas/*.json, tables of README and docs/all-methods.md.

`make docs`; a test compares them.
"""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Callable
from pathlib import Path

import results
import scorecard
from columns import columns
from methods import methods
from printed_claims import claims
from printed_figures import figures
from printed_numbers import coverage
from protocols import protocols
from settings import FILES, settings

from schemas import schema

ROOT = Path(__file__).parents[2]
PAGES: dict[str, Callable[[], str]] = {
    **{
        page.relative_to(ROOT).as_posix(): functools.partial(results.filled, page)
        for page in sorted((ROOT / "docs").glob("*.md"))
        if results.BLOCK.search(page.read_text())
    },
    "docs/claims.md": claims,
    "docs/columns.md": columns,
    "docs/coverage.md": coverage,
    "docs/figures.md": figures,
    "docs/methods.md": methods,
    "docs/protocols.md": protocols,
    "docs/results.md": scorecard.page,
    "docs/settings.md": settings,
    "README.md": lambda: scorecard.counted(results.filled(ROOT / "README.md")),
    **{f"schemas/{kind}.json": functools.partial(schema, kind) for kind in FILES},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="compare instead of writing; exit 1 where a page is out of date"
    )
    parser.add_argument(
        "--keep",
        metavar="EXPERIMENT",
        help="first copy its tables and figures from results/ to docs/results; archive: those of all that the archive alone makes, made anew",
    )
    options = parser.parse_args()
    for name in results.of_the_archive() if options.keep == "archive" else filter(None, [options.keep]):
        if options.keep == "archive":
            results.make(name)
        results.keep(name)
    edited = results.stale() if options.check else []
    stale = []
    for page, make in PAGES.items():
        path, text = ROOT / page, make()
        if options.check and (not path.exists() or path.read_text() != text):
            stale.append(page)
        elif not options.check:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
    told = [f"out of date: {', '.join(stale)}. Run: make docs"] * bool(stale)
    told += [f"not as kept: {', '.join(edited)}. Run: python docs/generate --keep EXPERIMENT"] * bool(edited)
    if told:
        sys.exit("\n".join(told))


if __name__ == "__main__":
    main()
