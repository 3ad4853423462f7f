"""Tuning: which of the points that a search tried is taken, by validation alone.

The score of a run is the accuracy ALL on the clients' validation splits (weighted by training images) in the
round that the protocol's rule takes; that of a point is the mean over its runs. The highest score is taken,
of equal ones the point that comes first. Test and held-out accuracies are not looked at: their records are
left out before anything is computed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from fedshift.analysis.collection.collected import Collected, is_there, read
from fedshift.analysis.layout.page import piped
from fedshift.analysis.quantities.select import aggregated, named
from fedshift.analysis.quantities.select import choose as choose_round
from fedshift.common.errors import FedshiftError
from fedshift.common.files import canonical_json, write_text
from fedshift.experiments.choice import Choice, Chosen, path_of, stage_of
from fedshift.experiments.load import load, trials
from fedshift.experiments.quantity import DEFAULT
from fedshift.experiments.schema import Experiment
from fedshift.experiments.tuning import Trial, place
from fedshift.storage.rundir import State
from fedshift.storage.workspace import Workspace

VALIDATION = "val"


class Tried(NamedTuple):
    """A point at one place.

    trial: the row and the values
    where: axis -> value, of the axes that are tuned value by value
    scores: of its runs, percent; NaN of one that failed
    """

    trial: Trial
    where: dict[str, Any]
    scores: list[float]

    @property
    def validation(self) -> float:
        """The mean over its runs; NaN where one of them failed or is not finite."""
        mean = math.fsum(self.scores) / len(self.scores)
        return round(mean, 9) if math.isfinite(mean) else math.nan


def tried(workspace: Workspace, experiment: Experiment, collected: Collected) -> list[Tried]:
    """Every point at every place, in the order of the file.

    collected: the runs of the experiment's tuning. Raises FedshiftError where one has not been trained yet.
    """
    missing = collected.runs["state"].isin([State.MISSING, State.RUNNING])
    if missing.any():
        what = f"{missing.sum()} of {len(missing)} runs of the search are not finished"
        cure = f"To train them: fedshift run {experiment.name}"
        raise FedshiftError(f"experiments/{experiment.name}.yaml: tune", what, cure)
    by_label = {trial.label: trial for trial in trials(workspace, experiment)}
    scores = _scores(collected)
    found: dict[tuple[str, str], Tried] = {}
    for keys in collected.runs[collected.keys].itertuples(index=False, name=None):
        label, point = keys[0], dict(zip(collected.keys[1:], keys[1:], strict=True))
        where = place(experiment, point)
        entry = found.setdefault((label, canonical_json(where)), Tried(by_label[label], where, []))
        entry.scores.append(scores.get(_name(keys), math.nan))
    return [*found.values()]


def best(points: Iterable[Tried], rule: str) -> Choice:
    """For each row and place the point with the highest score, of equal ones the first. Raises FedshiftError
    where all points failed.
    """
    groups: dict[tuple[str, str], list[Tried]] = {}
    for point in points:
        groups.setdefault((point.trial.row, canonical_json(point.where)), []).append(point)
    chosen = []
    for (row, _), group in groups.items():
        usable = [point for point in group if math.isfinite(point.validation)]
        if not usable:
            what = f"all {len(group)} points of '{row}' at {group[0].where} failed or are not finite"
            raise FedshiftError("tune", what, "Give the row another search space (tune.space).")
        taken = max(usable, key=lambda point: point.validation)
        counts = (len(group), len(group) - len(usable))
        chosen.append(Chosen(row, taken.where, taken.trial.values, taken.validation, *counts))
    return Choice(rule, chosen)


def write(workspace: Workspace, experiment: Experiment, collected: Collected) -> Path:
    """Choose, and write results/tuning/<experiment>/<key>.json, beside it all points (.csv) and the values
    that were chosen (.md); return the first.
    """
    path = path_of(workspace, experiment.name, collected.runs["digest"])
    points = tried(workspace, experiment, collected)
    choice = best(points, collected.protocol.select)
    write_text(path.with_suffix(".csv"), _searched(points, choice).to_csv(index=False))
    write_text(path.with_suffix(".md"), _page(choice))
    choice.write(path)
    return path


def choose_again(workspace: Workspace, names: Iterable[str]) -> list[Path]:
    """Choose for those of the experiments whose search was collected, as in a clone that has pulled its
    metrics; return the choices.
    """
    tuned = [experiment for experiment in (load(workspace, name) for name in names) if experiment.tune]
    return [
        write(workspace, experiment, read(workspace, stage_of(experiment.name)))
        for experiment in tuned
        if is_there(workspace, stage_of(experiment.name))
    ]


def _name(keys: Iterable[Any]) -> str:
    return canonical_json([str(key) for key in keys])


def _scores(collected: Collected) -> dict[str, float]:
    """Keys of a run -> its validation accuracy ALL, percent, in the round that the rule takes."""
    frame = named(collected, aggregated(collected, DEFAULT, [VALIDATION]).reset_index())
    rounds = choose_round(frame, collected.keys, collected.protocol.select)
    rows = rounds[[*collected.keys, VALIDATION]].itertuples(index=False, name=None)
    return {_name(row[:-1]): float(row[-1]) for row in rows}


def _searched(points: list[Tried], choice: Choice) -> pd.DataFrame:
    """A row for each point at each place: its values, the mean score, how many runs, whether it was taken."""
    taken = [(entry.row, entry.where, entry.values) for entry in choice.chosen]
    rows = []
    for point in points:
        row, values = point.trial
        of_runs = {"std": pd.Series(point.scores).std(ddof=0), "runs": len(point.scores)}
        chosen = (row, point.where, values) in taken
        head = {"method": row, **point.where, **values}
        rows.append({**head, "validation": point.validation, **of_runs, "chosen": chosen})
    frame = pd.DataFrame(rows)
    last = ["validation", "std", "runs", "chosen"]
    return frame[[*(column for column in frame if column not in last), *last]]


def _page(choice: Choice) -> str:
    """The chosen values as a Markdown table."""
    axes = list(dict.fromkeys(axis for entry in choice.chosen for axis in entry.where))
    head = ["method", *axes, "chosen", "validation", "points", "failed"]
    rows = []
    for entry in choice.chosen:
        settings = ", ".join(f"{key} {value}" for key, value in entry.values.items()) or "as it is"
        cells = [entry.row, *(entry.where.get(axis, "") for axis in axes), settings]
        cells += [f"{entry.validation:.2f}", entry.points, entry.failed]
        rows.append([*map(str, cells)])
    note = f"Chosen by validation accuracy ALL (percent; `{choice.rule}`); test accuracies chose nothing."
    return f"{note}\n\n{piped([head, *rows], ['---'] * len(head))}\n"
