"""docs/results.md: the scorecard of the tables that are kept in docs/results."""

from __future__ import annotations

import functools
import re
from pathlib import Path

from printed_numbers import every_number

from fedshift.analysis import scorecard
from fedshift.storage.workspace import Workspace

ROOT = Path(__file__).parents[2]
FILES = {
    "table": "results/{}/table.md",
    "source": "results/{}/source.json",
    "runs": "results/{}/runs.md",
}
HEAD = """# Results

Made by `make docs` from the tables that are kept in `docs/results` (`python docs/generate --keep EXPERIMENT`): what has come of every printed
number and of every comparison that the papers claim. Of your own tables `fedshift scorecard`
writes the same page to `results/scorecard.html`. What the verdicts mean and how often they are wrong: [verdicts.md](verdicts.md); why a number has no
cell: [coverage.md](coverage.md). *source*: the commit and the machine that made a table. *runs*: the archived runs in it, each with machine, hours and
size. *no run*: of a comparison that no experiment tests yet, why: [claims.md](claims.md). Layers (FDSE A5 to A7, hFedF 7 to 9) are counted as they are declared, with no run; hFedF's settings, taken from its Table 10, count nowhere.

"""
QUESTIONS = """
## Before you believe it

| a doubt | the answer |
| --- | --- |
| Which runs stand behind a trained number, on which machine, at what cost? | [runs of hFedF Table 2](results/hfedf/table2/runs.md); of all: `fedshift archive --list` |
| Can I see the tables without training, and repeat a run? | [How tables take the archive](archive.md#how-tables-take-it), [compared with own runs](archive.md#compared-with-own-runs) |
| What keeps an archived number from being edited? | [What is refused](archive.md#what-is-refused), and what cannot be found out |
| When is a number consistent, different, or of too few seeds? | [The rule](verdicts.md#a-printed-number) |
| How often is such a verdict wrong? | [Simulated on papers and runs of known truth](verdicts.md#how-often-a-word-is-wrong) |
| Which printed numbers are never compared, and why? | [Coverage](coverage.md), [claims without a place](claims.md#without-a-place) |
| Do the papers' own numbers bear their claims out? | [What they speak against](claims.md#what-the-papers-own-numbers-speak-against) |
| Are settings the papers' own, and who chose where a paper is silent? | [Protocols](protocols.md), beside the paper's words; [tuning](tuning.md) |
| Does a method compute its paper's equations? | [Methods](methods.md), with each contradiction; [tests](tests.md) |
| Where is hFedF off its paper, and which reading moves it? | [hFedF](hfedf.md), [open choices](hfedf.md#which-open-choice-moves-it) |
"""


COUNTS = re.compile(r"(<!-- counts -->\n).*?(<!-- end -->)", re.DOTALL)


def page() -> str:
    """The page, from files that a clone has."""
    return HEAD + scorecard.markdown(_kept()) + QUESTIONS


def counted(text: str) -> str:
    """A page's text with what has come of all numbers and comparisons between `<!-- counts -->` and `<!-- end -->`."""
    return COUNTS.sub(lambda block: f"{block[1]}{_kept().opening}\n{block[2]}", text)


@functools.cache
def _kept() -> scorecard.Scorecard:
    """Of the kept tables."""
    kept = ROOT / "docs" / "results"
    return scorecard.scorecard(Workspace(ROOT), kept, ROOT / "docs", FILES, every_number())
