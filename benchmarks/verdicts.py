"""How often are verdicts on printed numbers wrong, and how often are there any? python benchmarks/verdicts.py [--tables 1000]

Reproductions of a table of 40 numbers whose truth is known: each number of ours is off by the same share of the paper's margin, up or
down. Standard deviations over seeds are 40 of those that the paper prints. Writes benchmarks/verdicts.csv and docs/images/verdicts.png.
"""

from __future__ import annotations

import argparse
import functools
import itertools
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from fedshift.analysis.printed.spec import margin
from fedshift.analysis.verdicts.equivalence import LEVEL, corrected, probabilities
from fedshift.storage.workspace import Workspace

ROOT = Path(__file__).parents[1]
CSV, IMAGE = ROOT / "benchmarks" / "verdicts.csv", ROOT / "docs" / "images" / "verdicts.png"
NUMBERS = 40
SEEDS = (3, 5, 10)
KINDS = {
    "FDSE: printed with the standard deviation of 5 seeds": ("FDSE", "1", 5),
    "hFedF: a constant": ("hFedF", "13", 0),
    "hFedF: a constant that is a mean of 3 seeds": ("hFedF", "13", 3),
}  # paper, the table whose standard deviations are drawn, the seeds that the printed number is a mean of
OFF: tuple[float | str, ...] = (
    0,
    0.5,
    1,
    2,
    "0 and 1",
)  # margins by which ours are off; the last: half of the numbers by none, half by one
Correction = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Rates:
    """Shares: of numbers by verdict; of a table's verdicts "inside" that are wrong, on average, and "outside"; of tables with any such."""

    inside: float
    undecided: float
    outside: float
    wrong_inside: float
    wrong_outside: float
    tables_inside: float
    tables_outside: float


def holm(p: np.ndarray) -> np.ndarray:
    """p of tables along the last axis, corrected so that 5% of tables have any wrong verdict (Holm 1979)."""
    order = np.argsort(p, -1)
    stepped = np.take_along_axis(p, order, -1) * np.arange(p.shape[-1], 0, -1)
    back = np.argsort(order, -1)
    return np.minimum(np.take_along_axis(np.maximum.accumulate(stepped, -1), back, -1), 1)


def alone(p: np.ndarray) -> np.ndarray:
    """Not corrected."""
    return p


CORRECTIONS: dict[str, Correction] = {"Benjamini-Hochberg": corrected, "Holm": holm, "none": alone}


def verdicts(
    ours: np.ndarray, printed: np.ndarray, points: float, correct: Correction = corrected
) -> tuple[np.ndarray, np.ndarray]:
    """Which numbers are inside, and which outside [tables, numbers]; ours: [tables, numbers, seeds], printed: likewise, or its means."""
    sampled = printed.ndim == 3
    means = printed.mean(-1) if sampled else printed
    theirs = (printed.std(-1, ddof=1), printed.shape[-1]) if sampled else (np.zeros_like(means), 2)
    deviations, seeds = zip((ours.std(-1, ddof=1), ours.shape[-1]), theirs, strict=True)
    inside, outside = probabilities(ours.mean(-1) - means, deviations, seeds, points)
    return correct(inside) <= LEVEL, correct(outside) <= LEVEL


def simulate(
    rng: np.random.Generator,
    tables: int,
    seeds: int,
    kind: str,
    off: float | str,
    correct: Correction = corrected,
) -> Rates:
    """The rates over so many reproductions of a table, with so many seeds of ours."""
    paper, printed_table, printed_seeds = KINDS[kind]
    points, deviations = margin(Workspace(ROOT), paper).points, _deviations(paper, printed_table)[:, None]
    shares = np.repeat([0, 1], NUMBERS // 2) if isinstance(off, str) else np.full(NUMBERS, off)
    true = points * shares * rng.choice([-1, 1], NUMBERS)
    ours = true[:, None] + deviations * rng.normal(size=(tables, NUMBERS, seeds))
    printed = deviations * rng.normal(size=(tables, NUMBERS, max(printed_seeds, 1)))
    if kind.startswith("hFedF"):
        printed = printed.mean(-1) * (printed_seeds > 0)
    inside, outside = verdicts(ours, printed, points, correct)
    wrong = inside & (shares >= 1), outside & (shares <= 1)
    found = (inside, ~inside & ~outside, outside)
    of_table = (
        each.sum(-1) / np.maximum(all_.sum(-1), 1)
        for each, all_ in zip(wrong, (inside, outside), strict=True)
    )
    return Rates(*(float(one.mean()) for one in (*found, *of_table, *(each.any(-1) for each in wrong))))


@functools.cache
def _deviations(paper: str, table: str) -> np.ndarray:
    """Of the numbers of every simulated table the same."""
    rows = pd.read_csv(ROOT / "reference" / "published.csv", low_memory=False)
    printed = pd.to_numeric(rows[(rows["paper"] == paper) & (rows["table"] == table)]["std"]).dropna()
    return np.random.default_rng(0).choice(printed, NUMBERS, replace=False)


def table(rates: pd.DataFrame) -> str:
    """The rates of what tables are judged by, for docs/verdicts.md, in percent."""
    heads = ["printed", "seeds", "off, in margins", "inside", "undecided", "outside"]
    heads += ["wrong of inside", "wrong of outside", "tables with a wrong inside", "with a wrong outside"]
    shown = rates[rates["correction"] == next(iter(CORRECTIONS))]
    return _piped(heads, 3, shown.drop(columns="correction"))


def against_holm(rates: pd.DataFrame) -> str:
    """What corrections find of tables that are all true and all off by two margins, and how many half-true tables have a wrong verdict."""
    heads = [
        "printed",
        "correction",
        "seeds",
        "true: inside",
        "off by two: outside",
        "half true: tables with a wrong inside",
    ]
    by = rates[rates["printed"].isin([*KINDS][:2])].pivot(
        index=["printed", "correction", "seeds"], columns="off"
    )
    columns = [("inside", "0"), ("outside", "2"), ("tables_inside", OFF[-1])]
    return _piped(heads, 3, by[columns].reset_index())


def _piped(heads: list[str], words: int, rows: pd.DataFrame) -> str:
    lines = [
        [*map(str, row[:words]), *(f"{100 * share:.1f}" for share in row[words:])] for row in rows.to_numpy()
    ]
    rule = ["---"] * words + ["---:"] * (len(heads) - words)
    return "\n".join(f"| {' | '.join(line)} |" for line in [heads, rule, *lines])


def draw(rates: pd.DataFrame) -> None:
    """What becomes of a table's numbers, by truth, seeds and paper."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    ours = rates[rates["correction"] == next(iter(CORRECTIONS))]
    figure, axes = plt.subplots(
        len(KINDS), len(SEEDS), figsize=(9.5, 7), sharex=True, sharey=True, layout="constrained"
    )
    for place, seeds in itertools.product(range(len(KINDS)), SEEDS):
        rows = ours[(ours["printed"] == [*KINDS][place]) & (ours["seeds"] == seeds)]
        axis = axes[place, SEEDS.index(seeds)]
        floor = np.zeros(len(rows))
        for name, colour in (("inside", "#2f8f5b"), ("undecided", "#d0d7de"), ("outside", "#c2571a")):
            axis.bar(rows["off"], 100 * rows[name], 0.7, floor, color=colour, label=name)
            floor = floor + 100 * rows[name].to_numpy()
        axis.set_title(f"{seeds} seeds of ours", fontsize=9)
        axis.spines[["top", "right"]].set_visible(False)
    for row, kind in zip(axes, KINDS, strict=True):
        row[0].set_ylabel(
            kind.replace(": ", ":\n")
            .replace(" that is", "\nthat is")
            .replace(" with the", "\nwith the")
            .replace("dard d", "dard\nd"),
            fontsize=9,
        )
    figure.supxlabel("true difference, in margins", fontsize=10)
    figure.supylabel("numbers (%)", fontsize=10)
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=3, frameon=False)
    figure.savefig(IMAGE, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=1000)
    tables = parser.parse_args().tables
    rows = [
        {"printed": kind, "correction": name, "seeds": seeds, "off": str(off)}
        | asdict(simulate(np.random.default_rng([seeds, place]), tables, seeds, kind, off, correct))
        for kind in KINDS
        for name, correct in CORRECTIONS.items()
        for seeds in SEEDS
        for place, off in enumerate(OFF)
    ]
    pd.DataFrame(rows).to_csv(CSV, index=False, float_format="%.4f")
    rates = pd.read_csv(CSV, dtype={"off": str})
    draw(rates)
    print(table(rates), against_holm(rates), sep="\n\n")


if __name__ == "__main__":
    main()
