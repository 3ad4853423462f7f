"""docs/results.md: the scorecard of the tables that are kept in docs/results."""

from __future__ import annotations

import functools
import re
from pathlib import Path

from printed_numbers import every_number

from fedshift.analysis.report import scorecard
from fedshift.storage.workspace import Workspace

ROOT = Path(__file__).parents[2]
FILES = {"table": "results/{}/table.md", "runs": "results/{}/source.json"}
HEAD = """# Results

Made by `make docs` from the tables that are kept in `docs/results` (`python docs/generate --keep EXPERIMENT`): what has come of every printed
number and every claim. Of your own tables `fedshift scorecard` writes the same page to `results/scorecard.html`. What the words mean and how
often they are wrong: [verdicts.md](verdicts.md); why a number has no cell: [coverage.md](coverage.md). *runs*: the commit and the machine that
made a table. *not tested*: a claim that no experiment tests yet, and why: [claims.md](claims.md). Layers (FDSE A5 to A7, hFedF 7 to 9) and searched
settings (hFedF 10) are compared as they are declared, with no run; hFedF's settings are inside because they were taken from its table.

"""


COUNTS = re.compile(r"(<!-- counts -->\n).*?(<!-- end -->)", re.DOTALL)


def page() -> str:
    """The page, from files that a clone has."""
    return HEAD + scorecard.markdown(_kept())


def counted(text: str) -> str:
    """A page's text with what has come of all numbers and claims between `<!-- counts -->` and `<!-- end -->`."""
    return COUNTS.sub(lambda block: f"{block[1]}{_kept().opening}\n{block[2]}", text)


@functools.cache
def _kept() -> scorecard.Scorecard:
    """Of the kept tables."""
    kept = ROOT / "docs" / "results"
    return scorecard.scorecard(Workspace(ROOT), kept, ROOT / "docs", FILES, every_number())
