"""CKA: how similar the features of two clients' networks are, for every pair of clients."""

import pandas as pd

from fedshift.analysis.clients import DOMAINS, domains
from fedshift.analysis.collected import Collected
from fedshift.analysis.evaluated import results_of
from fedshift.analysis.figures.base import Axis, Figure, Plot, held_out, notes, rows_of
from fedshift.storage.workspace import Workspace

PAIRS = 15  # with more pairs, each client has its mean over the others instead
NAMES = {"client": "first", "other": "second"}  # number -> column of the name


class CKA(Figure):
    """A dot for each pair of clients and row of the experiment, the mean over runs; rings are single runs."""

    name = "cka"
    evaluations = ("cka",)

    def plot(self, workspace: Workspace, collected: Collected) -> Plot:
        frame = _pairs(_named(collected, results_of(workspace, collected, "cka")))
        methods, names = rows_of(frame, collected), [*frame.sort_values("rank")["x"].unique()]
        frame = frame.rename(columns={"method": "label", "cka": "y"})
        runs = frame.groupby(["label", "x", "digest"], sort=False)["y"].mean().reset_index()
        by = runs.groupby(["label", "x"], sort=False)["y"]
        rings = runs[by.transform("size") > 1].assign(mark="run", style="ring")
        several = frame["digest"].nunique() > len(methods)
        return Plot(
            "Similarity of clients' networks",
            pd.concat([rings, by.mean().reset_index()]),
            Axis("pair of clients" if "–" in names[0] else "client, mean over all others", names=names),
            Axis("linear CKA of features\n(1: identical)", limits=(0.0, 1.03)),
            note=notes(held_out(collected, frame), several and "dots: means over runs; rings: runs"),
            size=(max(3.6, 0.5 * len(names)), 2.7),
            order={"label": methods, "x": names},
        )


def _named(collected: Collected, frame: pd.DataFrame) -> pd.DataFrame:
    """Add NAMES, the names of both clients: their domains, or their numbers where clients share a domain."""
    known, keys = domains(collected), collected.keys
    for number, name in NAMES.items():
        of = known.rename(columns={"client": number, DOMAINS: name})
        frame = frame.merge(of, how="left", on=[*keys, number])
    if known.duplicated([*keys, DOMAINS]).any() or frame[[*NAMES.values()]].isna().any(axis=None):
        return frame.assign(**{name: frame[number].astype(str) for number, name in NAMES.items()})
    return frame


def _pairs(frame: pd.DataFrame) -> pd.DataFrame:
    """Add `x` and its `rank` on the axis: the pair of clients, or each of the two if there are many.

    The order of a pair of domains does not depend on which clients hold them.
    """
    turned = (frame["first"] > frame["second"]) & (not frame["first"].str.isdigit().all())
    other = frame.rename(columns={"first": "second", "second": "first", "client": "other", "other": "client"})
    frame = frame.mask(turned, other)
    pair = frame["first"] + "–" + frame["second"]
    if pair.nunique() <= PAIRS:
        return frame.assign(x=pair, rank=frame["client"] * 1000 + frame["other"])
    both = [frame.assign(x=frame[name], rank=frame[number]) for number, name in NAMES.items()]
    return pd.concat(both, ignore_index=True)
