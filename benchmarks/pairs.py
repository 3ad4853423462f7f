"""The paired difference between two values of an axis, with its interval; figures: docs/hfedf.md.

    fedshift collect hfedf/precision_photo
    python benchmarks/pairs.py hfedf/precision_photo local.precision fp32 bf16 --rules last last_third

For each method, rule and metric: the left value's accuracy less the right's, in points, mean over seeds with Student's 95% interval, and the
distance from 0 that so many seeds see with probability 0.8. A pair is the same method, target and seed, hence the same start and batches.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from fedshift.analysis.claims.paired import estimate, paired
from fedshift.analysis.collection.collected import read
from fedshift.analysis.quantities.select import selected
from fedshift.storage.workspace import Workspace


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("experiment")
    parser.add_argument("axis")
    parser.add_argument("left")
    parser.add_argument("right")
    parser.add_argument("--rules", nargs="+", default=["last"])
    parser.add_argument("--metrics", nargs="+", default=["id", "ood"])
    parser.add_argument("--root", type=Path, default=Path(), help="the project folder that holds the results")
    options = parser.parse_args()
    collected = read(Workspace(options.root.resolve()), options.experiment)
    axes = [key for key in collected.keys if key not in ("method", options.axis)]
    print(
        f"| method | rule | metric | {options.left} | {options.right} | difference | 95% interval | seeds | seen with 0.8 |\n"
        + "|---" * 9
        + "|"
    )
    for rule in options.rules:
        values = selected(collected, rule)
        for method, runs in values.groupby("method", sort=False):
            sides = runs.assign(method=runs[options.axis])  # the axis stands where methods are compared
            for metric in options.metrics:
                of = estimate(paired(sides, axes, options.left, options.right, metric), options.right)
                mean = sides.groupby("method")[metric].mean()
                means = (f"{mean[value]:.1f}" for value in (options.left, options.right))
                print(
                    f"| {method} | {rule} | {metric} | {' | '.join(means)} | {of.mean:+.1f} | {of.low:+.1f} to {of.high:+.1f} | {of.seeds} | {of.detectable:.1f} |"
                )


if __name__ == "__main__":
    main()
