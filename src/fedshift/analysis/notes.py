"""Notes below a table: how to read its numbers, and differences between the runs that it compares."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Iterator

import pandas as pd

from fedshift.analysis.collected import ARCHIVE, Collected, whole_runs
from fedshift.analysis.page import MARK
from fedshift.analysis.quantities import own_splits, selected
from fedshift.common.errors import FedshiftError
from fedshift.common.registry import get, names, title
from fedshift.experiments.column import DEFAULT, measured_on_clients, quantity, recorded
from fedshift.spec import Method

RULES = {
    "last": "the last round",
    "last_third": "the mean over all evaluations from two thirds of the rounds on",
    "best_first": "the round with the highest validation ALL, the first on a tie",
    "best_later": "the round with the highest validation ALL, the later on a tie",
    "oracle": "the round with the highest accuracy on the held-out domain itself, the first on a tie: its "
    "labels choose, so it cannot be reported without them",
    "held_out": "the round with the highest accuracy on a second held-out domain, the first on a tie; "
    "that domain is not reported",
}
AGGREGATED = {
    "pooled": "pooled: all clients' test samples as one set.",
    "worst": "worst client: the lowest of the clients' values, or the highest where lower is better.",
    "std": "std over clients: population standard deviation of the clients' values.",
}
COLUMNS = {
    "gain.": "Gain: the value of the row that the table names minus this row's, run by run.",
    "ratio.cost.seconds": "Times: this row's over those of the row that the table names, on the same "
    "hardware; the papers used other machines, so theirs are ratios too.",
    "cost.parameters": "Parameters, state, multiply-adds: counted from the network as the method changes it.",
    "cost.macs_norm": "Multiply-adds of one image forward; with BN: four for each number that is normalised.",
    "cost.up": "MB up: what one client sends in a round.",
    "cost.down": "MB down: what one client gets in a round.",
    "_to.": "To reach a value: by the first evaluated round with it; a run that never reaches it counts "
    "as missing.",
    "setting.": "Settings: of the runs' resolved specifications. Unless `tune` chose them, they are the "
    "published ones (reference/presets), equal by declaration. A setting without a published value is our "
    "guess.",
    "layer.": "Layers: of the declared network, without training; the published ones in the same words "
    "(reference/architectures.yaml).",
}
FEW = 10  # domains or classes that a note names
STAGES = {"post_agg": "after aggregation", "post_train": "after local training"}
AVERAGES = {"size": "by training images", "uniform": "uniform", "own": "by the method's rule"}
BN = {"averaged": "averaged like weights", "local": "local to each client", "none": "no batch normalisation"}


def notes(collected: Collected) -> list[str]:
    """The notes that a reader needs to judge the tables of an experiment.

    First how the numbers were read and the runs were made, then the experiment's own notes.
    """
    unfinished, untrained, changed = urgent(collected)
    finished = collected.runs[collected.runs["state"] == "finished"]
    lines = [*_of_tables(collected, finished), unfinished, untrained]
    if len(finished):
        lines += [*_of_runs(collected, finished), changed]
    return [*filter(None, lines), *collected.protocol.notes, *collected.experiment.notes]


def urgent(collected: Collected) -> tuple[str, str, str]:
    """The notes that are always shown in a terminal, next to those of marks; "" where one does not apply.

    How many runs are not finished, report the network before its first round, and were trained by another
    version of their method's or model's file.
    """
    unfinished = untrained = changed = ""
    if missing := collected.missing:
        unfinished = (
            f"{len(missing)} of {len(collected.runs)} runs are not finished: seeds that lack one are left "
            "out; k/n marks a cell with k of its n seeds."
        )
    with contextlib.suppress(FedshiftError):  # nothing to choose a round by
        rounds = selected(collected)["round"] if collected.experiment.train else pd.Series([])
        if first := int((rounds == 0).sum()):
            untrained = (
                f"{first} of {len(rounds)} runs report round 0, the untrained network: validation was never "
                "better later. Train more rounds, or at another learning rate."
            )
    runs = collected.runs[(collected.runs["state"] == "finished") & collected.runs["adaptation"].isna()]
    others = runs.loc[(runs["code"] != "") & (runs["code"] != runs["installed"]), "method"]
    if len(others):
        counts = ", ".join(f"{method} ({n})" for method, n in others.value_counts(sort=False).items())
        changed = (
            f"The file of the method or model has changed since {len(others)} of {len(runs)} runs were "
            f"trained: {counts}. To train them again: fedshift plan --retrain-changed."
        )
    return unfinished, untrained, changed


def _of_tables(collected: Collected, finished: pd.DataFrame) -> Iterator[str]:
    """What the numbers are, and which of them are missing."""
    tables, protocol = collected.experiment.tables.values(), collected.protocol
    metrics = [metric for table in tables for metric in table.metrics]
    runs = finished[finished["adaptation"].isna()]
    spread = "population (n)" if protocol.ddof == 0 else "sample (n - 1)"
    yield (
        "Accuracy in percent. id: in-distribution, mean over clients; ood: the held-out domain; "
        "ALL: clients weighted by training size; AVG: plain mean over clients."
    )
    yield (
        f"Shown: {RULES[protocol.select]}. Spread: {spread} standard deviation over seeds, after "
        "averaging the rest."
    )
    yield from (text for start, text in COLUMNS.items() if any(start in metric for metric in metrics))
    quantities = [quantity(metric) for metric in recorded(metrics)]
    if asked := [*dict.fromkeys(metric for metric, _ in quantities if metric != DEFAULT)]:
        yield " ".join(title("metrics", name) for name in asked)
    aggregations = {aggregation for _, aggregation in quantities}
    yield from (text for name, text in AGGREGATED.items() if name in aggregations)
    if computed := [name for name in asked if not get("metrics", name).recorded]:
        lacking = {*runs["digest"]}
        for starts, table in whole_runs(collected.statistics, ["digest"], ["digest"]):
            lacking -= {*table.take(starts)["digest"].to_pylist()}
        if lacking:
            yield (
                f"{len(lacking)} runs were trained before statistics were recorded and have no "
                f"{', '.join(computed)}: delete their directories to train them again."
            )
    if any(map(measured_on_clients, metrics)) and len(of := runs[own_splits(runs) == "val"]):
        rows = "" if len(of) == len(runs) else f" ({', '.join(of['method'].unique())})"
        yield f"id, ALL, AVG: of the clients' validation images, as the partition has no test part{rows}."
    rules = dict.fromkeys(rule for table in tables for rule in table.select)
    yield from (f"select = {rule}: {RULES[rule]}." for rule in rules)


def _of_runs(collected: Collected, finished: pd.DataFrame) -> Iterator[str]:
    """How the finished runs were made: models, averages, precision, hardware, images, code."""
    runs = finished[finished["adaptation"].isna()]
    specs = runs["spec"].map(json.loads)
    yield f"Evaluated: {_by_method(runs, runs['evaluates'] + ' model ' + runs['stage'].map(STAGES))}."
    sends = (runs["bytes_up"] > 0) & ~runs["pooled"].eq(True)
    averages = {
        index: AVERAGES[Method(**spec["method"]).weights(spec["federation"]["weights"])]
        for index, spec in specs[sends].items()
        if spec["method"]["name"] in names("methods")  # else of a package that is not installed
    }
    if averages:
        yield f"Client weights in the average: {_by_method(runs.loc[[*averages]], pd.Series(averages))}."
    yield f"Batch-norm statistics: {_by_method(runs, runs['bn'].map(BN))}."
    yield f"Training precision: {_by_method(runs, runs['precision'])}."
    for label, row in collected.experiment.adapt.items():
        for adaptation in finished.loc[finished["method"] == label, "adaptation"].unique():
            declaration = json.loads(adaptation)
            params = ", ".join(f"{key} {value}" for key, value in declaration["task"]["params"].items())
            yield (
                f"{label}: the models of {row.run} in the round shown, adapted by {row.name} ({params}; "
                f"code {declaration['code']}) to the very images that {row.run}'s ood is of, without their "
                "labels, then tested on them again: ood alone, and no learning curve."
            )
    hardware = finished["hardware"]
    mixed = "Mixed hardware" if hardware.nunique() > 1 else "Hardware"
    yield f"{mixed}: {_by_method(finished, hardware)}."
    absent = dict.fromkeys(
        f"{domain} ({_first(classes)})"
        for text in runs["absent"].unique()
        for domain, classes in json.loads(text).items()
    )
    if absent:
        yield f"Domains without any image of a class: {_first([*absent], '; ')}."
    data = specs.map(lambda spec: spec["data"])
    sources = data.map(lambda of: f"{of['dataset']} {of['release']} at {of['prepare']['px']} px")
    for name, alike in runs.groupby(sources, sort=False):
        if (several := alike["images"].nunique()) > 1:
            yield (
                f"Mixed images: {name} in {several} versions, by other files or another decoding: "
                f"{_by_method(alike, alike['images'].str[:8])}."
            )
    yield from archived_note(runs)


def _first(words: list[str], separator: str = ", ") -> str:
    """The first few of many words, and the number of others."""
    more = f"{separator}and {len(words) - FEW} more" if len(words) > FEW else ""
    return separator.join(words[:FEW]) + more


def _by_method(runs: pd.DataFrame, what: pd.Series[str]) -> str:
    """ "a" where all methods agree, else "a (method, method); b (method)"."""
    if what.nunique() == 1:
        return str(what.iloc[0])
    groups = runs["method"].groupby(what, sort=False).unique()
    return "; ".join(f"{value} ({', '.join(methods)})" for value, methods in groups.items())


def archived_note(runs: pd.DataFrame) -> Iterator[str]:
    """The note below tables with archived runs: how many, and from which machines."""
    archived = runs[runs["source"] == ARCHIVE]
    if len(archived):
        machines = "; ".join(f"{name} ({count})" for name, count in Counter(archived["hardware"]).items())
        text = f"{len(archived)} of {len(runs)} runs, by {machines}"
        yield f"{MARK} From the archive (results-archive/), not trained here: {text}."
