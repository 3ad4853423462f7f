"""The ratio of the gradients that FDSE's runs record, beside their accuracies, round by round; figures: docs/fdse.md.

    fedshift collect fdse/lambda_office
    python benchmarks/gradients.py fdse/lambda_office

Writes results/tables/<experiment>/rounds.csv and prints a line a run: the term's gradient over the task's, median over clients and rounds with
the least and the largest, and validation ALL, ALL and AVG at the round that the protocol's rule chooses.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq

from fedshift.analysis.collection.collected import Collected, read
from fedshift.analysis.quantities.select import choose, curves
from fedshift.common.files import write_text
from fedshift.storage.workspace import Workspace


def ratios(collected: Collected) -> pd.DataFrame:
    """A row for each run, round and client: keys, round, client, and the consistency term's gradient over the task's."""
    table = pq.read_table(collected.path, filters=[("stage", "==", "diagnostic")]).to_pandas()
    keys = [*collected.keys, "round", "client"]
    norms = table.pivot_table(index=keys, columns="metric", values="value")
    return (norms["consistency_gradient"] / norms["task_gradient"]).rename("ratio").reset_index()


def asked(text: str | None) -> tuple[Workspace, str]:
    """The workspace and the collected experiment that the command line names; text: what --help says first."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("experiment")
    parser.add_argument("--root", type=Path, default=Path(), help="the project folder that holds the results")
    options = parser.parse_args()
    return Workspace(options.root.resolve()), options.experiment


def main() -> None:
    workspace, experiment = asked(__doc__)
    collected = read(workspace, experiment)
    by, by_client = [*collected.keys, "round"], ratios(collected)
    rounds = curves(collected).merge(
        by_client.groupby(by)["ratio"].agg(["median", "min", "max"]).reset_index(), on=by, how="left"
    )
    path = workspace.tables(experiment) / "rounds.csv"
    write_text(path, rounds.to_csv(index=False, float_format="%.6g"))
    reported = choose(rounds, collected.keys, collected.protocol.select)
    for run, own in by_client.groupby(collected.keys)["ratio"]:
        best = reported[(reported[collected.keys] == list(run)).all(axis=1)].iloc[0]
        print(
            f"{dict(zip(collected.keys, run, strict=True))}: ratio {own.median():.1e} ({own.min():.1e} to {own.max():.1e}); "
            f"round {best['round']:.0f}, validation ALL {best['val']:.1f}, ALL {best['all']:.1f}, AVG {best['avg']:.1f}"
        )
    print(path)


if __name__ == "__main__":
    main()
