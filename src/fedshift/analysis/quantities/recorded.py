"""Recorded: numbers of what methods record by round (fedshift.federation.diagnostics), for figures and
claims.
"""

from __future__ import annotations

import functools

import numpy as np
import pandas as pd

from fedshift.analysis.collection.collected import Collected
from fedshift.analysis.collection.diagnostics import diagnostics
from fedshift.analysis.quantities.clients import DOMAINS, domains
from fedshift.experiments.column import recorded_of
from fedshift.storage.workspace import Workspace

SHARES = ("weights", "gradalign")  # the clients' weights in the server's step, as methods call them
PLACE = "place"  # of a number in its tensor, as the file of diagnostics has it in `index`


def of_clients(workspace: Workspace, collected: Collected, name: str) -> pd.DataFrame:
    """What a diagnostic says of each client after each round: keys, round, client, DOMAINS, PLACE, value
    (SHARES in percent).
    """
    frame = diagnostics(workspace, collected.experiment.name, name).rename(columns={"index": PLACE})
    frame["value"] = frame["value"].astype(float) * (100 if name in SHARES else 1)
    return frame.merge(domains(collected), on=[*collected.keys, "client"])


def by_round(workspace: Workspace, collected: Collected, text: str) -> pd.DataFrame:
    """A number of each run after each round, as `recorded.<text>` names it: keys, round, value.

    spread: the standard deviation over clients (n), of vectors the root mean square distance from their mean;
    range: the largest less the smallest; of=<domain>: the value of the client that holds this domain;
    apart=<axis>: the mean distance (Euclidean, over clients) from the runs that differ in this axis alone.
    """
    name, what, value = recorded_of(text)
    frame = of_clients(workspace, collected, name)
    keys = [*collected.keys, "round"]
    groups = frame.groupby(keys, dropna=False)
    if what == "range":
        return (groups["value"].max() - groups["value"].min()).reset_index()
    if what == "of":
        return frame[frame[DOMAINS] == value][[*keys, "value"]]
    if what == "apart":
        return _apart(frame, keys, value)
    places = frame.groupby([*keys, PLACE], dropna=False)["value"].var(ddof=0)
    return (places.groupby(keys, dropna=False).sum() ** 0.5).rename("value").reset_index()


def last(workspace: Workspace, collected: Collected, text: str) -> pd.Series[float]:
    """The same after the last round, for each planned run by the index of `runs`; NaN where nothing was
    recorded.
    """
    frame = by_round(workspace, collected, text).sort_values("round")
    ends = frame.drop_duplicates(collected.keys, keep="last").drop(columns="round")
    runs = collected.runs
    return runs[collected.keys].merge(ends, on=collected.keys, how="left").set_axis(runs.index)["value"]


def _apart(frame: pd.DataFrame, keys: list[str], axis: str) -> pd.DataFrame:
    """Mean distance of each run from those that differ from it on one axis alone, client by client in their
    order.
    """
    if frame.empty:
        return frame[[*keys, "value"]]
    wide = frame.set_index([*keys, "client", PLACE])["value"].unstack(["client", PLACE])
    others = [key for key in keys if key != axis]
    distances = functools.partial(_distances, clients=frame["client"].nunique())
    parts = [
        pd.Series(distances(rows.to_numpy()), rows.index)
        for _, rows in wide.groupby(level=others, dropna=False)
    ]
    return pd.concat(parts).rename("value").reset_index()


def _distances(rows: np.ndarray, clients: int) -> np.ndarray:
    """[runs] Of each row the mean distance from the others: over clients, each a vector."""
    if len(rows) < 2:
        return np.full(len(rows), np.nan)
    apart = (rows[:, None] - rows[None]).reshape(len(rows), len(rows), clients, -1)
    distances = np.linalg.norm(apart, axis=-1).mean(-1)
    return np.asarray(distances.sum(1) / (len(rows) - 1))
