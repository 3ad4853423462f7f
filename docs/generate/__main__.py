"""Fills the blocks of pages that are made from the code and from kept results: what is between `<!-- made: NAME -->`,
or `<!-- results: EXPERIMENT/TABLE -->`, and `<!-- end -->`. Writes schemas/*.json.

`make docs`; a test compares them.
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
from columns import columns
from methods import methods
from protocols import protocols

from fedshift.analysis import scorecard
from schemas import schema

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"(<!-- (made|results): ([\w/]+) -->\n).*?(<!-- end -->)", re.DOTALL)
MADE: dict[str, Callable[[], str]] = {
    "claims/against": printed.against,
    "claims/places": printed.places,
    "claims/print": printed.on_print,
    "claims/sentences": printed.sentences,
    "claims/without": printed.without_place,
    "columns": columns,
    "coverage": printed.coverage,
    "figures/kinds": printed.figure_kinds,
    "figures/printed": printed.printed_figures,
    "methods": methods,
    "protocols": protocols,
    "scorecard": lambda: scorecard.markdown(printed.kept()),
    "scorecard/counts": lambda: printed.kept().opening,
    "settings/run": settings.run,
    **{f"settings/{kind}": functools.partial(settings.file, kind) for kind in settings.FILES},
    **{f"settings/{kind}": functools.partial(settings.of, kind) for kind in settings.KINDS},
}


def filled(page: Path) -> str:
    """The text of a page with its blocks as they are now."""

    def block(found: re.Match[str]) -> str:
        text = MADE[found[3]]() if found[2] == "made" else results.kept(found[3])
        return f"{found[1]}{text.strip()}\n\n{found[4]}"

    return BLOCK.sub(block, page.read_text())


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
    pages = {page: filled(page) for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))}
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
