"""Results by client for figures and claims: metrics, predictions by confidence, and recorded diagnostics.

Metrics and predictions are those of the round that tables report. Diagnostics are numbers that methods record
(fedshift.federation.records).
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from fedshift.analysis.collected import Collected, diagnostics
from fedshift.analysis.metrics.base import Metric
from fedshift.analysis.quantities import PLACE, ROUND, own, reported_sets, reported_values, selected
from fedshift.common.registry import get
from fedshift.experiments.column import recorded_of
from fedshift.experiments.protocols import Rule
from fedshift.federation.records import BINS
from fedshift.storage.workspace import Workspace

DOMAINS = "domains"  # of a client: its name, several joined by "+"


def by_client(collected: Collected, metric: str, rule: Rule | None = None) -> pd.DataFrame:
    """A metric for each client of each finished run: keys, round, client, DOMAINS, value.

    The value is on the client's own samples (`fedshift.federation.records.own_split`), fractions in percent.
    A client without samples has no row. A rule that averages several rounds (`last_third`) is replaced by its
    last round.

    `rule`: chooses the round, by default the protocol's rule.
    """
    kind: type[Metric] = get("metrics", metric)
    rounds = selected(collected, rule)[[*collected.keys, *ROUND]]
    parts = [own(part).merge(rounds, on=ROUND) for part in reported_values(collected, kind)]
    frame = pd.concat(parts or [rounds.assign(client=0, value=0.0)[:0]])
    frame["value"] *= 100 if kind.percent else 1
    columns = [*collected.keys, "round", "client", "value"]
    return frame[columns].merge(domains(collected), on=[*collected.keys, "client"])


def domains(collected: Collected) -> pd.DataFrame:
    """One row for each client of each finished run: keys, client, DOMAINS."""
    finished = collected.runs[collected.runs["state"] == "finished"]
    each = finished[[*collected.keys, "clients"]].explode("clients", ignore_index=True)
    names = [" + ".join(client["domains"]) for client in each["clients"]]
    numbers = pd.Series([client["client"] for client in each["clients"]], each.index, dtype="int64")
    return each[collected.keys].assign(client=numbers, **{DOMAINS: names})


def leading(collected: Collected, metric: str, rule: Rule | None = None) -> pd.Series[float]:
    """The share of clients (percent) on which each planned run is the best of its place; indexed as `runs`.

    The run is compared with all rows that are planned at the same place on all axes. Rows with equal values
    lead together. NaN where one of them has no value, where there is only one row, and for adapted rows,
    which have no clients.
    """
    keys = collected.keys
    frame = by_client(collected, metric, rule)
    groups = frame.groupby([*keys[1:], "client"], dropna=False)["value"]
    best = groups.transform("max" if get("metrics", metric).better == "higher" else "min")
    frame["leads"] = 100.0 * (frame["value"] == best)
    shares = frame.groupby(keys, dropna=False)["leads"].mean().reset_index()
    found = collected.of_each_run(shares).assign(every=0)
    place = found[collected.runs["adaptation"].isna()].groupby([*keys[1:], "every"], dropna=False)["leads"]
    planned = place.transform("size")
    return found["leads"].where((place.transform("count") == planned) & (planned > 1))


COUNTS = ("wrong", "right", "confidence")  # of samples by confidence (fedshift.federation.records)


def confidences(collected: Collected) -> pd.DataFrame:
    """Samples by confidence of all finished runs of a row together: where, method, bin, and COUNTS.

    `where` is `id` (the clients' own samples) or `ood` (the held-out domain). COUNTS are the wrong samples,
    the right ones, and the sum of their confidences. Each sample has the same weight. Rows without statistics
    are left out.
    """
    by, rounds = ["where", "method", "bin"], selected(collected)[ROUND]
    parts = [pd.DataFrame(columns=[*by, *COUNTS])]
    for frame, arrays in reported_sets(collected, COUNTS):
        frame = frame.assign(at=range(len(frame)), method=frame[PLACE].map(collected.runs["method"]))
        sides = {"id": own(frame), "ood": frame[(frame["split"] == "target") & (frame["client"] == -1)]}
        for where, sets in sides.items():
            shown = sets.merge(rounds, on=ROUND)
            bins = shown.loc[shown.index.repeat(BINS), ["method"]]
            bins = bins.assign(where=where, bin=np.tile(np.arange(BINS), len(shown)))
            parts.append(bins.assign(**{name: arrays[name][shown["at"]].ravel() for name in COUNTS}))
    return pd.concat(parts[1:] or parts).groupby(by)[[*COUNTS]].sum().reset_index()


SHARES = ("weights", "gradalign")  # diagnostics with the clients' weights in the server's step
INDEX = "place"  # of a number in its tensor; `index` in the file of diagnostics


def of_clients(workspace: Workspace, collected: Collected, *names: str) -> pd.DataFrame:
    """Diagnostics of each client after each round: keys, round, client, DOMAINS, name, INDEX, value.

    SHARES are in percent.
    """
    frame = diagnostics(workspace, collected.experiment.name, *names).rename(columns={"index": INDEX})
    frame["value"] = frame["value"].astype(float) * np.where(frame["name"].isin(SHARES), 100, 1)
    return frame.merge(domains(collected), on=[*collected.keys, "client"])


def recorded_by_round(workspace: Workspace, collected: Collected, text: str) -> pd.DataFrame:
    """A number of each run after each round, as named by `recorded.<text>`: keys, round, value.

    `spread`: the standard deviation over clients (divided by n); for vectors, the root mean square distance
        from their mean.
    `range`: the largest value minus the smallest.
    `of=<domain>`: the value of the client that holds this domain.
    `apart=<axis>`: the mean Euclidean distance, over clients, from the runs that differ in this axis alone.
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
    places = frame.groupby([*keys, INDEX], dropna=False)["value"].var(ddof=0)
    return (places.groupby(keys, dropna=False).sum() ** 0.5).rename("value").reset_index()


def _apart(frame: pd.DataFrame, keys: list[str], axis: str) -> pd.DataFrame:
    if frame.empty:
        return frame[[*keys, "value"]]
    wide = frame.set_index([*keys, "client", INDEX])["value"].unstack(["client", INDEX])
    parts = []
    for _, runs in wide.groupby(level=[key for key in keys if key != axis], dropna=False):
        held = runs.notna().any().groupby(level="client").transform("any")
        own = runs.loc[:, held]  # other data sets may have more clients
        clients = own.columns.get_level_values("client").nunique()
        vectors = own.to_numpy().reshape(len(runs), clients, -1)
        distances = np.linalg.norm(vectors[:, None] - vectors[None], axis=-1).mean(-1)  # [runs, runs]
        others = len(runs) - 1
        parts.append(pd.Series(distances.sum(1) / others if others else np.nan, runs.index))
    return pd.concat(parts).rename("value").reset_index()


def last_recorded(workspace: Workspace, collected: Collected, text: str) -> pd.Series[float]:
    """The same number after the last round, for each planned run, indexed as `runs`.

    NaN if nothing was recorded.
    """
    frame = recorded_by_round(workspace, collected, text).sort_values("round")
    ends = frame.drop_duplicates(collected.keys, keep="last").drop(columns="round")
    return collected.of_each_run(ends)["value"]
