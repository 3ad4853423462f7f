"""Accuracies of each method by the moment at which its clients' models are tested; figures: docs/fdse.md.

    python benchmarks/stages.py fdse/table1_office_tf32 --metrics all avg --rounds 451 500

For each method and each stage that its runs recorded (after local training, after aggregation): percent in the round that the protocol's
rule chooses by that stage's own validation, and the mean over the rounds named; means over seeds and further axes.
"""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path

from fedshift.analysis.collection.collected import Collected
from fedshift.analysis.notes import STAGES
from fedshift.analysis.quantities.select import curves, selected
from fedshift.cli._collected import collected_or_archived
from fedshift.storage.workspace import Workspace


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("experiment")
    parser.add_argument("--metrics", nargs="+", default=["id"])
    parser.add_argument("--rounds", nargs=2, type=int, required=True, metavar=("FIRST", "LAST"))
    parser.add_argument("--root", type=Path, default=Path(), help="the project folder that holds the results")
    options = parser.parse_args()
    collected = collected_or_archived(Workspace(options.root.resolve()), options.experiment)
    first, last = options.rounds
    head = [f"{metric}, {when}" for when in ("chosen", f"{first} to {last}") for metric in options.metrics]
    rows = [("method", "tested", *head), ("---",) * (2 + len(head))]
    for stage, words in STAGES.items():
        at = tested(collected, stage)
        late = curves(at)
        late = late[late["round"].between(first, last)]
        frames = [
            frame.groupby("method", sort=False)[options.metrics].mean() for frame in (selected(at), late)
        ]
        for method in frames[0].dropna(how="all").index:
            values = [frame.loc[method, metric] for frame in frames for metric in options.metrics]
            rows.append((method, words, *(f"{value:.2f}" for value in values)))
    order = list(collected.experiment.rows)
    rows[2:] = sorted(rows[2:], key=lambda row: order.index(row[0]))
    print("\n".join(f"| {' | '.join(row)} |" for row in rows))


def tested(collected: Collected, stage: str) -> Collected:
    """The same runs, read at this stage instead of the one that they declare for tables."""
    return dataclasses.replace(collected, runs=collected.runs.assign(stage=stage))


if __name__ == "__main__":
    main()
