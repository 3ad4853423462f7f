"""Writes the pages that are made from the code: docs/equations.md, methods.md and protocols.md. `make docs`; a test compares them."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from equations import equations
from methods import methods
from protocols import protocols

PAGES = {"equations.md": equations, "methods.md": methods, "protocols.md": protocols}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="compare instead of writing; exit 1 where a page is out of date"
    )
    check = parser.parse_args().check
    stale = []
    for page, make in PAGES.items():
        path, text = Path(__file__).parents[1] / page, make()
        if check and (not path.exists() or path.read_text() != text):
            stale.append(page)
        elif not check:
            path.write_text(text)
    if stale:
        sys.exit(f"out of date: {', '.join(stale)}. Run: make docs")


if __name__ == "__main__":
    main()
