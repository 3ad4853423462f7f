"""How often are verdicts wrong, and how often are there any? python benchmarks/verdicts.py [--tables 2000]

Reproductions of a table whose truth is known, drawn from normal distributions: 6 methods on 4 held-out domains, of
which each number is printed, and 8 methods that are compared with one another. Writes benchmarks/verdicts.csv.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fedshift.analysis.published import rows
from fedshift.analysis.verdicts import (
    UNKNOWN,
    WORDS,
    around,
    beside_print,
    pooled,
    residual,
    simultaneous,
    word,
)  # fmt: skip
from fedshift.storage.workspace import Workspace

ROOT = Path(__file__).parents[1]
CSV = ROOT / "benchmarks" / "verdicts.csv"
METHODS, DOMAINS, COMPARED = 6, 4, 8
MARGIN = 2.0  # standard deviations of one seed: as reference/published.yaml has them
OFF = (0, 1, 2, 3)  # by how many of them ours is off
SIDES = {
    "3 seeds beside 3": (3, 3, False),
    "5 seeds beside 3": (5, 3, False),
    "3 seeds beside 5 with their spread": (3, 5, True),
    "5 seeds beside 5 with their spread": (5, 5, True),
    "1 seed beside 5 with their spread": (1, 5, True),
}  # ours, the paper's seeds, whether it prints their standard deviation


def deviations(rng: np.random.Generator, count: int, alike: bool) -> np.ndarray:
    """[count] Of one seed of each method: alike, or as unlike as those that FDSE prints in Table 1; 1 at the median."""
    if alike:
        return np.ones(count)
    known = pd.DataFrame(rows(Workspace(ROOT))).query("paper == 'FDSE' and table == '1' and std != ''")
    std = known["std"].astype(float)
    return rng.choice(std / std.groupby(known["dataset"]).transform("median"), count)


def numbers(rng: np.random.Generator, tables: int, alike: bool) -> Iterator[dict[str, Any]]:
    """Shares of the three words."""
    for name, (n, printed_n, spread_printed) in SIDES.items():
        for off in OFF:
            counts: dict[str, int] = dict.fromkeys(WORDS, 0)
            for _ in range(tables):
                scale = deviations(rng, METHODS, alike)[:, None, None]
                ours = scale * rng.standard_normal((METHODS, DOMAINS, n)) + off
                theirs = scale * rng.standard_normal((METHODS, DOMAINS, printed_n))
                own = _pooled(ours) if n > 1 else UNKNOWN
                printed = _pooled(theirs) if spread_printed else UNKNOWN
                for difference in (ours.mean(-1) - theirs.mean(-1)).flat:
                    counts[word(beside_print(float(difference), n, own, printed_n, printed), MARGIN)] += 1
            total = tables * METHODS * DOMAINS
            shares = {of: round(100 * count / total, 1) for of, count in counts.items()}
            yield {"what": "number", "case": name, "spreads": _named(alike), "off": off, **shares}


def comparisons(rng: np.random.Generator, tables: int, alike: bool) -> Iterator[dict[str, Any]]:
    """Shares of tables in which one method is found above another that it is `off` above, and below it."""
    for n in (2, 3, 5):
        for off in OFF:
            above = below = 0
            for _ in range(tables):
                scale = deviations(rng, COMPARED, alike)[:, None]
                values = scale * rng.standard_normal((COMPARED, n)) + rng.standard_normal(n)
                values[0] += off
                spread = residual(pd.DataFrame(values))
                error = spread.deviation * (2 / n) ** 0.5
                interval = around(float((values[0] - values[1]).mean()), error, spread.freedom)
                above, below = above + (interval.low > 0), below + (interval.high < 0)
            shares = {"above": round(100 * above / tables, 1), "below": round(100 * below / tables, 1)}
            yield {"what": "comparison", "case": f"{n} seeds", "spreads": _named(alike), "off": off, **shares}


def rankings(rng: np.random.Generator, tables: int, alike: bool) -> Iterator[dict[str, Any]]:
    """Shares of tables of equal methods in which any is told apart from the first."""
    for n in (2, 3, 5):
        quantile = simultaneous(COMPARED - 1, (COMPARED - 1) * (n - 1))
        found = 0
        for _ in range(tables):
            scale = deviations(rng, COMPARED, alike)[:, None]
            values = scale * rng.standard_normal((COMPARED, n))
            half = quantile * residual(pd.DataFrame(values)).deviation * (2 / n) ** 0.5
            found += bool((np.abs(values[1:].mean(1) - values[0].mean()) > half).any())
        share = {"any told apart": round(100 * found / tables, 1)}
        yield {"what": "ranking", "case": f"{n} seeds", "spreads": _named(alike), "off": 0, **share}


def _pooled(values: np.ndarray) -> Any:
    return pooled((float(std), values.shape[-1]) for std in values.std(-1, ddof=1).flat)


def _named(alike: bool) -> str:
    return "alike" if alike else "as unlike as FDSE's"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tables", type=int, default=2000, help="reproductions of each case")
    tables = parser.parse_args().tables
    rng = np.random.default_rng(0)
    made = [
        row
        for alike in (True, False)
        for kind in (numbers, comparisons, rankings)
        for row in kind(rng, tables, alike)
    ]
    frame = pd.DataFrame(made)
    frame.to_csv(CSV, index=False)
    print(frame.to_string(index=False, na_rep=""))


if __name__ == "__main__":
    main()
