"""Verdicts: whether our number is the printed one, within a margin that was declared before anything was
trained.

Both are means over seeds. Where the paper prints their standard deviation and how many they are, the
difference of the means is judged by Welch's t test; elsewhere the printed number is a constant, and the
test is of our mean alone. With d the absolute difference, e its standard error and M the margin,

- "inside" has p = P(T <= (d - M) / e): of the two one-sided tests, against M and -M, the larger p (TOST,
  Schuirmann 1987);
- "outside" has p = P(T >= (d - M) / e) + P(T >= (d + M) / e): the test that the true difference is no larger
  than M (Hodges and Lehmann 1954).

Each of the two is corrected within a table (Benjamini and Hochberg 1995): of a table's verdicts of one kind
5% at most are wrong on average; where each of them would be wrong, a table has even one with probability 5%
at most. What neither test finds is undecided, and so is a number of ours without a standard deviation: one
seed, or seeds that are all alike.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from fedshift.analysis.verdicts.power import fewest, standard_errors

LEVEL = 0.05
ALIKE = 1e-9  # a standard deviation of no more is rounding
Floats = npt.NDArray[np.float64]
Word = Literal["inside", "outside", "undecided"]


@dataclass(frozen=True)
class Summary:
    """A number: mean over seeds, standard deviation (n - 1; NaN: unknown), number of seeds (0: unknown)."""

    mean: float
    deviation: float = math.nan
    n: int = 0

    @property
    def sampled(self) -> bool:
        """Whether its standard error is known; seeds that are all alike do not tell it."""
        return self.n > 1 and self.deviation > ALIKE


@dataclass(frozen=True)
class Verdict:
    """difference: ours less the printed; low, high: its 90% interval, uncorrected; p: corrected, of
    "inside" or "outside", on whose side of the margin it lies; detectable: the distance from the margin
    that these seeds see with probability 0.8; needed, of what is undecided: the seeds of ours that would
    see the distance of this difference (infinity: more than 1000). NaN: unknown.
    """

    word: Word
    difference: float
    low: float = math.nan
    high: float = math.nan
    p: float = math.nan
    detectable: float = math.nan
    needed: float = math.nan


def judge(pairs: Sequence[tuple[Summary, Summary]], margin: float) -> list[Verdict]:
    """The verdicts on all numbers of a table: pairs of ours and the printed; margin: in their unit.

    A printed number without a standard deviation is a constant.
    """
    tested = [(ours, printed) for ours, printed in pairs if ours.sampled]
    decided = iter(_decided(tested, margin) if tested else [])
    return [next(decided) if ours.sampled else _undecided(ours, printed, margin) for ours, printed in pairs]


def probabilities(
    difference: Any, deviations: tuple[Any, Any], seeds: tuple[Any, Any], margin: float
) -> tuple[Floats, Floats]:
    """p of "inside" and of "outside", uncorrected, of numbers in arrays of one shape; deviations and seeds
    are ours and the printed.

    A constant is a sample of any size without deviation: Welch's degrees of freedom are then n - 1.
    """
    from scipy.stats import ttest_ind_from_stats

    def one_sided(shifted: Any, alternative: str) -> Floats:
        ours, printed = ((deviations[i], seeds[i]) for i in (0, 1))
        test = ttest_ind_from_stats(shifted, *ours, 0, *printed, equal_var=False, alternative=alternative)
        return np.asarray(test.pvalue)

    size = np.abs(difference)
    beyond = one_sided(size - margin, "greater") + one_sided(size + margin, "greater")
    return one_sided(size - margin, "less"), np.minimum(beyond, 1)


def corrected(p: Floats) -> Floats:
    """p of tables along the last axis, corrected within each."""
    from scipy.stats import false_discovery_control

    return np.asarray(false_discovery_control(p, axis=-1, method="bh"))


def _decided(pairs: Sequence[tuple[Summary, Summary]], margin: float) -> list[Verdict]:
    """Of numbers of ours that have a standard deviation."""
    constant = Summary(0, 0, 2)
    both = [(ours, printed if printed.sampled else constant) for ours, printed in pairs]
    differences = np.array([ours.mean - printed.mean for ours, printed in pairs])
    deviations, seeds = np.array([[(side.deviation, side.n) for side in pair] for pair in both]).T
    inside, outside = map(corrected, probabilities(differences, tuple(deviations), tuple(seeds), margin))
    far = np.abs(differences) > margin
    # Seeds are given to a whole table: this is what p must reach where all numbers on its side are found.
    levels = LEVEL * np.where(far, far.mean(), 1 - far.mean())
    judged = zip(pairs, np.where(far, outside, inside), levels, strict=True)
    return [_verdict(*pair, margin, float(p), float(level)) for pair, p, level in judged]


def _verdict(ours: Summary, printed: Summary, margin: float, p: float, level: float) -> Verdict:
    """The verdict on a number of ours beside a printed one. p: corrected for all numbers of the table; level:
    what it must reach where all numbers on its side of the margin are decided.
    """
    from scipy.stats import t

    difference, decided = ours.mean - printed.mean, p <= LEVEL
    error, freedom = welch(ours.deviation, ours.n, printed)
    half = float(t.ppf(1 - LEVEL, freedom)) * error
    return Verdict(
        ("outside" if abs(difference) > margin else "inside") if decided else "undecided",
        difference,
        difference - half,
        difference + half,
        p,
        error * standard_errors(int(freedom), level),
        math.nan if decided else _needed(difference, ours.deviation, printed, margin, level),
    )


def _undecided(ours: Summary, printed: Summary, margin: float) -> Verdict:
    """Of a number of ours without a standard deviation; `needed` takes the paper's, where that is known."""
    difference = ours.mean - printed.mean
    deviation = printed.deviation if printed.sampled else math.nan
    return Verdict("undecided", difference, needed=_needed(difference, deviation, printed, margin, LEVEL))


def _needed(difference: float, deviation: float, printed: Summary, margin: float, level: float) -> float:
    if math.isnan(deviation):
        return math.nan

    def sees(seeds: int) -> float:
        error, freedom = welch(deviation, seeds, printed)
        return error * standard_errors(int(freedom), level)

    return fewest(sees, abs(abs(difference) - margin))


def welch(deviation: float, n: int, printed: Summary) -> tuple[float, float]:
    """The standard error of the difference of two means, and its degrees of freedom (Welch 1947)."""
    ours = deviation**2 / n
    if not printed.sampled:
        return math.sqrt(ours), n - 1
    theirs = printed.deviation**2 / printed.n
    freedom = (ours + theirs) ** 2 / (ours**2 / (n - 1) + theirs**2 / (printed.n - 1))
    return math.sqrt(ours + theirs), freedom
