"""The weights by which FDSE's server mixes the clients' personal modules (Eq. 9), as its runs record them; figures: docs/fdse.md.

    fedshift collect fdse/similarity_office
    python benchmarks/similarity.py fdse/similarity_office

Prints a line a run: the least and largest weight of a client for itself, and for another one, over all rounds and units, beside the equal share.
"""

from __future__ import annotations

from gradients import asked

from fedshift.analysis.collection.collected import read
from fedshift.analysis.collection.diagnostics import diagnostics


def main() -> None:
    workspace, experiment = asked(__doc__)
    keys = read(workspace, experiment).keys
    frame = diagnostics(workspace, experiment, "similarity")
    for run, own in frame.groupby(keys, dropna=False):
        clients = own["client"].nunique()
        itself = own["index"] % clients == own["client"]  # its last axis: whose module it weighs
        ends = [
            f"{part.min():.5f} to {part.max():.5f}"
            for part in (own.loc[itself, "value"], own.loc[~itself, "value"])
        ]
        print(
            f"{dict(zip(keys, run, strict=True))}: {own['round'].nunique()} rounds, {own['index'].nunique() // clients} units; "
            f"own weight {ends[0]}, another's {ends[1]}, equal share {1 / clients:.5f}"
        )


if __name__ == "__main__":
    main()
