"""The weights by which FDSE's server mixes the clients' personal modules (Eq. 9), as its runs record them; figures: docs/fdse.md.

    fedshift collect fdse/similarity_office
    python benchmarks/similarity.py fdse/similarity_office

Prints a line a run: the least and largest weight of a client for itself, and for another one, over all rounds and units, beside the equal share.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from fedshift.analysis.collection.collected import read
from fedshift.analysis.collection.diagnostics import diagnostics
from fedshift.storage.workspace import Workspace


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("experiment")
    parser.add_argument("--root", type=Path, default=Path(), help="the project folder that holds the results")
    options = parser.parse_args()
    workspace = Workspace(options.root.resolve())
    keys = read(workspace, options.experiment).keys
    frame = diagnostics(workspace, options.experiment, "similarity")
    for run, own in frame.groupby(keys, dropna=False):
        clients = own["client"].nunique()
        itself = own["index"] % clients == own["client"]  # its last axis: whose module it weighs
        ends = [
            f"{np.min(part):.5f} to {np.max(part):.5f}"
            for part in (own.loc[itself, "value"], own.loc[~itself, "value"])
        ]
        print(
            f"{dict(zip(keys, run, strict=True))}: {own['round'].nunique()} rounds, {own['index'].nunique() // clients} units; "
            f"own weight {ends[0]}, another's {ends[1]}, equal share {1 / clients:.5f}"
        )


if __name__ == "__main__":
    main()
