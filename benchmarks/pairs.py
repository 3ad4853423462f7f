"""The paired difference between two values of an axis, or two methods, with its interval; figures: docs/hfedf.md.

    python benchmarks/pairs.py hfedf/precision_photo local.precision fp32 bf16 --rules last last_third
    python benchmarks/pairs.py hfedf/table2 method hfedf fedavg --where d=1 target=photo --rules last last_third

For each method, rule and metric: the left value's accuracy less the right's, in points, mean over seeds with Student's 95% interval. A pair is the same method, target and seed, hence the same start and batches.
A seed that lacks a planned run is left out.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pandas as pd

from fedshift.analysis.claims.judge import estimate, summed
from fedshift.analysis.quantities import selected
from fedshift.cli.results import collected_or_archived
from fedshift.storage.workspace import Workspace


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("experiment")
    parser.add_argument("axis", help="method, or a column of the experiment's runs: d, local.precision")
    parser.add_argument("left")
    parser.add_argument("right")
    parser.add_argument("--rules", nargs="+", default=["last"])
    parser.add_argument("--metrics", nargs="+", default=["id", "ood"])
    parser.add_argument("--where", nargs="+", default=[], metavar="COLUMN=VALUE", help="only these runs")
    parser.add_argument("--root", type=Path, default=Path(), help="the project folder that holds the results")
    options = parser.parse_args()
    collected = collected_or_archived(Workspace(options.root.resolve()), options.experiment)
    sides = options.left, options.right
    heads = ("method", "rule", "metric", *sides, "difference", "95% interval", "seeds")
    rows: list[tuple[str, ...]] = [heads, ("---",) * len(heads)]
    for rule in options.rules:
        planned = collected.runs[collected.keys]
        values = planned.merge(selected(collected, rule), on=collected.keys, how="left")
        for column, value in (text.split("=", 1) for text in options.where):
            values = values[values[column].astype(str) == value]
        axes = [key for key in collected.keys if key not in ("method", options.axis)]
        compared = [("", values)] if options.axis == "method" else values.groupby("method", sort=False)
        for method, runs in compared:
            for metric in options.metrics:
                means, of = difference(runs, options.axis, axes, sides, metric)
                several = of["seeds"] > 1  # one seed has no interval
                interval = f"{of['low']:+.1f} to {of['high']:+.1f}" if several else ""
                mean = f"{of['difference']:+.1f}"
                rows.append((str(method), rule, metric, *means, mean, interval, f"{of['seeds']}"))
    print("\n".join(f"| {' | '.join(row)} |" for row in rows))


def difference(
    runs: pd.DataFrame, axis: str, axes: list[str], sides: tuple[str, str], metric: str
) -> tuple[list[str], dict[str, Any]]:
    """The mean of each side over the seeds that have all runs of both, and their paired difference.

    runs: a row per planned run, NaN where it is missing.
    """
    named = runs.assign(cell=runs[axis].astype(str), method="").rename(columns={metric: "value"})
    named = named[named["cell"].isin(sides)][["cell", "method", *axes, "value"]].fillna(
        dict.fromkeys(axes, "")
    )
    terms = pd.DataFrame({"pair": 0, "factor": [1, -1], "cell": sides, "method": "", "constant": 0.0})
    pairs = summed(terms, named, ["pair"]).drop(columns="pair")
    whole = named[
        named["seed"].isin(pairs["seed"]) & ~named["seed"].isin(pairs.loc[pairs["difference"].isna(), "seed"])
    ]
    means = [f"{whole.loc[whole['cell'] == side, 'value'].mean():.1f}" for side in sides]
    return means, estimate(pairs)


if __name__ == "__main__":
    main()
