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
from typing import Literal

import pandas as pd

from fedshift.analysis.collected import Collected
from fedshift.analysis.quantities import PLACE, selected
from fedshift.analysis.verdicts import UNKNOWN, Interval, around, residual, standard_error
from fedshift.common.errors import FedshiftError
from fedshift.experiments.schema import Hypothesis

Outcome = Literal["confirmed", "refuted", "open", "not run"]
DECLARED = ("left", "relation", "right", "metric", "level", "text")
COLUMNS = [
    "hypothesis", "dataset", "left", "relation", "right", "metric", "margin", "level", *Interval._fields,
    "seeds", "planned", "verdict", "text",
]  # fmt: skip


def judge(collected: Collected) -> pd.DataFrame:
    """The verdicts on all hypotheses of an experiment, in order, a row for each data set.

    `difference`, `low`, `high` and `margin` are in percentage points: the left row minus the right one, over
    `seeds` of `planned` seeds. `verdict` is an Outcome. The other columns are those of the hypothesis.

    Raises FedshiftError if `~` has no margin on a data set.
    """
    declared, keys = collected.experiment.hypotheses, collected.keys
    if not declared:
        return pd.DataFrame(columns=COLUMNS)
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
        found.append(
            {key: getattr(one, key) for key in DECLARED}
            | {"hypothesis": name, "dataset": dataset, "margin": one.margin.get(str(dataset), math.nan)}
            | {"seeds": pair.shape[1], "planned": means.shape[1], **interval._asdict()}
            | {"verdict": outcome(one, str(dataset), interval)}
        )
    return pd.DataFrame(found, columns=COLUMNS)


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


def lines(judged: pd.DataFrame) -> list[tuple[str, ...]]:
    """Lines of text under the headings of `page.SECTIONS`."""
    return [
        (
            f"{one['left']} {one['relation']} {one['right']}"
            + (f" within {one['margin']:g}" if one["relation"] == "~" else ""),
            one["dataset"],
            _text(Interval(one["difference"], one["low"], one["high"])),
            f"{one['seeds']} of {one['planned']}",
            one["verdict"],
            one["text"],
        )
        for one in judged.to_dict("records")
    ]


def _text(interval: Interval) -> str:
    """ "+1.2 [-0.3, +2.7]"."""
    if math.isnan(interval.difference):
        return ""
    ends = "" if math.isnan(interval.low) else f" [{interval.low:+z.1f}, {interval.high:+z.1f}]"
    return f"{interval.difference:+z.1f}{ends}"
