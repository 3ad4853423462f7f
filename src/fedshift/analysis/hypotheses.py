"""Hypotheses that an experiment declares before its runs are trained, judged by these runs alone.

The domains of a data set are fixed, seeds are sampled: the values of a row are averaged over all axes but
`data.dataset` and `seed` first. Two rows are compared where both are planned, and a seed without all these
runs is left out. The interval of the difference is Student's. Its spread is pooled over all rows of the
experiment (fedshift.analysis.verdicts.residual), or with `spread: pair` that of the differences between the
two rows.

- `a > b` is confirmed if the interval is above 0, refuted if it is below 0.
- `a ~ b` is confirmed if the interval is within the margin on both sides of 0, refuted if it is beyond it.
- Otherwise it is open. Each data set has its own verdict.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import pandas as pd

from fedshift.analysis.collected import Collected
from fedshift.analysis.quantities import PLACE, selected
from fedshift.analysis.verdicts import UNKNOWN, Interval, around, residual, standard_error
from fedshift.common.errors import FedshiftError
from fedshift.experiments.schema import Hypothesis

Outcome = Literal["confirmed", "refuted", "open", "not run"]


class Judged(NamedTuple):
    """A verdict on one data set: the left row minus the right one, over `seeds` of `planned` seeds."""

    name: str
    hypothesis: Hypothesis
    dataset: str
    interval: Interval
    seeds: int
    planned: int
    verdict: Outcome


def judge(collected: Collected) -> list[Judged]:
    """The verdicts on all hypotheses of an experiment, in order; none where it declares none.

    Raises FedshiftError if `~` has no margin on a data set.
    """
    declared, keys = collected.experiment.hypotheses, collected.keys
    if not declared:
        return []
    metrics = [*dict.fromkeys(hypothesis.metric for hypothesis in declared.values())]
    chosen = selected(collected, quantities=metrics)[[*keys, *metrics]]
    runs = collected.runs[[*keys, "spec"]].merge(chosen, on=keys, how="left")
    places = [axis for axis in keys[1:] if axis != "seed"]
    runs[PLACE] = runs.groupby(places, dropna=False).ngroup() if places else 0
    runs = runs if "seed" in keys else runs.assign(seed=0)
    datasets = runs["spec"].map(lambda spec: str(json.loads(spec)["data"]["dataset"]))
    found = []
    for (name, one), (dataset, of) in itertools.product(declared.items(), runs.groupby(datasets, sort=False)):
        if one.relation == "~" and dataset not in one.margin:
            where = f"{collected.experiment.file}: hypotheses.{name}.margin"
            raise FedshiftError(where, f"has no margin on {dataset}", f"Add `{dataset}: <points>`.")
        left, right = ({*of.loc[of["method"] == row, PLACE]} for row in (one.left, one.right))
        of = of[of[PLACE].isin(left & right)]
        groups = of.groupby(["method", "seed"])[one.metric]
        means = groups.mean(skipna=False).where(groups.size() == len(left & right)).unstack("seed")
        pair = means.reindex([one.left, one.right]).dropna(axis=1)
        differences = pair.diff().iloc[-1].mul(-1)  # left minus right
        shared = UNKNOWN if one.spread == "pair" else residual(means[pair.columns])
        error = standard_error(differences, shared)
        interval = around(float(differences.mean()), *error, one.level)
        word = outcome(one, str(dataset), interval)
        found.append(Judged(name, one, str(dataset), interval, pair.shape[1], means.shape[1], word))
    return found


def outcome(hypothesis: Hypothesis, dataset: str, interval: Interval) -> Outcome:
    """The verdict on one data set."""
    difference, low, high = interval
    if math.isnan(difference):
        return "not run"
    if hypothesis.relation == "~":
        margin = hypothesis.margin[dataset]
        holds, fails = -margin < low and high < margin, low > margin or high < -margin
    else:
        holds, fails = low > 0, high < 0
    return "confirmed" if holds else "refuted" if fails else "open"


def lines(judged: Sequence[Judged]) -> list[tuple[str, ...]]:
    """Lines of text under the headings of `page.SECTIONS`."""
    return [
        (
            f"{one.hypothesis.left} {one.hypothesis.relation} {one.hypothesis.right}"
            + (f" within {one.hypothesis.margin[one.dataset]:g}" if one.hypothesis.relation == "~" else ""),
            one.dataset,
            _text(one.interval),
            f"{one.seeds} of {one.planned}",
            one.verdict,
            one.hypothesis.text,
        )
        for one in judged
    ]


def _text(interval: Interval) -> str:
    """ "+1.2 [-0.3, +2.7]"."""
    if math.isnan(interval.difference):
        return ""
    ends = "" if math.isnan(interval.low) else f" [{interval.low:+z.1f}, {interval.high:+z.1f}]"
    return f"{interval.difference:+z.1f}{ends}"


def table(judged: Sequence[Judged]) -> pd.DataFrame:
    """A row for each verdict; difference, low, high and margin are in percentage points."""
    declared = ("left", "relation", "right", "metric")
    return pd.DataFrame(
        {
            "hypothesis": one.name,
            "dataset": one.dataset,
            **{name: getattr(one.hypothesis, name) for name in declared},
            "margin": one.hypothesis.margin.get(one.dataset, math.nan),
            "level": one.hypothesis.level,
            **one.interval._asdict(),
            "seeds": one.seeds,
            "planned": one.planned,
            "verdict": one.verdict,
        }
        for one in judged
    )
