"""Clients: a metric on each client of every run, in the round that tables report."""

from __future__ import annotations

import pandas as pd

from fedshift.analysis.collection.collected import Collected
from fedshift.analysis.metrics.base import Metric
from fedshift.analysis.quantities import values
from fedshift.analysis.quantities.aggregation import CLIENTS, own
from fedshift.analysis.quantities.select import by_place, named, selected_by_place
from fedshift.analysis.quantities.values import PLACE, ROUND
from fedshift.common.registry import get
from fedshift.experiments.protocols import Rule

DOMAINS = "domains"  # of a client: its name, several joined by "+"


def by_client(collected: Collected, metric: str, rule: Rule | None = None) -> pd.DataFrame:
    """A row for each client of each finished run: keys, round, client, DOMAINS, value (fractions in percent),
    in the round that `rule` chooses, by default the protocol's.

    The value is on the client's own samples (`fedshift.federation.records.own_split`); a client without any
    has no row. The mean of a rule that takes several rounds (`last_third`) has none: its last round stands
    for it.
    """
    kind: type[Metric] = get("metrics", metric)
    rounds = selected_by_place(collected, rule)[ROUND]
    parts = [own(part).merge(rounds, on=ROUND) for part in values.reported(collected, kind)]
    frame = pd.concat(parts or [rounds.assign(client=0, value=0.0)[:0]])[[*ROUND, "client", "value"]]
    frame["value"] *= 100 if kind.percent else 1
    return named(collected, frame).merge(domains(collected), on=[*collected.keys, "client"])


def left_out(collected: Collected, metric: str, rule: Rule | None = None) -> pd.Series[str]:
    """For each planned run, by the index of `runs`: "2 of 3" where a metric has values on 2 of its 3 clients
    only; "" elsewhere, and where the run is not finished or has no statistics for the metric.
    """
    if (metric, CLIENTS) not in collected.aggregated:
        by_place(collected, [f"{metric}.id"])
    rounds = selected_by_place(collected, rule)[ROUND]
    counts = rounds.join(collected.aggregated[metric, CLIENTS], on=ROUND).set_index(PLACE)[CLIENTS]
    total = collected.runs["clients"].str.len()
    few = counts[counts < total[counts.index]]
    texts = few.astype(int).astype(str) + " of " + total[few.index].astype(int).astype(str)
    return texts.reindex(collected.runs.index, fill_value="")


def domains(collected: Collected) -> pd.DataFrame:
    """A row for each client of each finished run: keys, client, DOMAINS."""
    finished = collected.runs[collected.runs["state"] == "finished"]
    each = finished[[*collected.keys, "clients"]].explode("clients", ignore_index=True)
    names = [" + ".join(client["domains"]) for client in each["clients"]]
    numbers = pd.Series([client["client"] for client in each["clients"]], each.index, dtype="int64")
    return each[collected.keys].assign(client=numbers, **{DOMAINS: names})


def leading(collected: Collected, metric: str, rule: Rule | None = None) -> pd.Series[float]:
    """For each planned run, by the index of `runs`: the share of its clients (percent) on which its row is
    the best of all rows that are planned at the same place on all axes; equals lead together. NaN at a place
    where one of these has no value, or where there is one row alone. An adapted row, which is of no client,
    has none and is beside nobody.
    """
    keys, runs = collected.keys, collected.runs
    frame = by_client(collected, metric, rule)
    better = get("metrics", metric).better
    groups = frame.groupby([*keys[1:], "client"], dropna=False)["value"]
    best = groups.transform("max" if better == "higher" else "min")
    frame["leads"] = 100.0 * (frame["value"] == best)
    shares = frame.groupby(keys, dropna=False)["leads"].mean().reset_index()
    found = runs[keys].merge(shares, on=keys, how="left").set_axis(runs.index).assign(every=0)
    place = found[runs["adaptation"].isna()].groupby([*keys[1:], "every"], dropna=False)["leads"]
    planned = place.transform("size")
    return found["leads"].where((place.transform("count") == planned) & (planned > 1))
