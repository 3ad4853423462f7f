"""Tuning: choose among the points of a search, by validation alone.

The score of a run is the accuracy ALL on the clients' validation splits (weighted by training images), in the
round that the protocol's rule chooses. The score of a point is the mean over its runs. The highest score is
chosen; of equal ones, the first point. Test and held-out accuracies are not read.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from fedshift.analysis.collected import Collected
from fedshift.analysis.page import piped
from fedshift.analysis.quantities import PLACE, aggregated
from fedshift.analysis.quantities import choose as choose_round
from fedshift.common.errors import FedshiftError
from fedshift.common.files import canonical_json, write_text
from fedshift.common.yaml_file import written
from fedshift.experiments.column import DEFAULT
from fedshift.experiments.schema import Experiment
from fedshift.experiments.tuning import Choice, Chosen, Trial, place, trials
from fedshift.storage.rundir import State
from fedshift.storage.workspace import Workspace

VALIDATION = "val"


class Tried(NamedTuple):
    """A point (a row and its values) at one place.

    `where`: axis -> value, for the axes that are tuned value by value.
    `scores`: of its runs, in percent; NaN for a failed run.
    `runs`: their ids.
    """

    trial: Trial
    where: dict[str, Any]
    scores: list[float]
    runs: list[str]

    @property
    def validation(self) -> float:
        """The mean over its runs; NaN if one of them failed or is not finite."""
        mean = math.fsum(self.scores) / len(self.scores)
        return round(mean, 9) if math.isfinite(mean) else math.nan


def tried(workspace: Workspace, experiment: Experiment, collected: Collected) -> list[Tried]:
    """Every point at every place, in the order of the file.

    `collected`: the runs of the experiment's tuning.

    Raises FedshiftError if one of them has not been trained yet.
    """
    missing = collected.runs["state"].isin([State.MISSING, State.RUNNING])
    if missing.any():
        what = f"{missing.sum()} of {len(missing)} runs of the search are not finished"
        cure = f"To train them: fedshift run {experiment.name}.tuning"
        raise FedshiftError(f"{experiment.file}: tune", what, cure)
    by_label = {trial.label: trial for trial in trials(workspace, experiment)}
    found: dict[tuple[str, str], Tried] = {}
    for run in collected.runs.assign(score=_scores(collected)).to_dict("records"):
        label, where = run["method"], place(experiment, {axis: run[axis] for axis in collected.keys[1:]})
        point = found.setdefault((label, canonical_json(where)), Tried(by_label[label], where, [], []))
        point.runs.append(run["digest"])
        point.scores.append(run["score"])
    return [*found.values()]


def best(points: Iterable[Tried], rule: str) -> Choice:
    """The point with the highest score for each row and place; of equal ones, the first.

    Raises FedshiftError if all points failed.
    """
    groups: dict[tuple[str, str], list[Tried]] = {}
    for point in points:
        groups.setdefault((point.trial.row, canonical_json(point.where)), []).append(point)
    chosen = []
    for (row, _), group in groups.items():
        usable = [point for point in group if math.isfinite(point.validation)]
        if not usable:
            what = f"all {len(group)} points of '{row}' at {group[0].where} failed or are not finite"
            raise FedshiftError("tune", what, "Give the row other values (`grid` in reference/presets).")
        taken = max(usable, key=lambda point: point.validation)
        chosen.append(
            Chosen(
                row=row,
                where=taken.where,
                values=taken.trial.values,
                validation=taken.validation,
                points=len(group),
                failed=len(group) - len(usable),
                runs=taken.runs,
            )
        )
    return Choice(rule=rule, chosen=chosen)


def write(workspace: Workspace, experiment: Experiment, collected: Collected) -> Path:
    """Choose the points, and write the experiment's preset (`experiments.choice`). Returns the preset's path.

    All points of the search are written to results/tables/<experiment>/searched.csv.
    """
    points = tried(workspace, experiment, collected)
    choice = best(points, collected.protocol.select)
    searched = workspace.tables(experiment.name) / "searched.csv"
    write_text(searched, _searched(points, choice).to_csv(index=False))
    path = workspace.tuned(experiment.name)
    content = written(choice.model_dump(), default_flow_style=None, width=110)
    write_text(path, f"# Written by `fedshift tune {experiment.name}`: docs/tuning.md.\n{content}")
    return path


def _scores(collected: Collected) -> pd.Series[float]:
    """The validation accuracy ALL of each finished run, in percent, in the round that the rule chooses."""
    rounds = aggregated(collected, DEFAULT, [VALIDATION]).reset_index()
    return choose_round(rounds, [PLACE], collected.protocol.select).set_index(PLACE)[VALIDATION]


def _searched(points: list[Tried], choice: Choice) -> pd.DataFrame:
    """One row for each point at each place: values, mean score, number of runs, and whether it was chosen."""
    taken = [(entry.row, entry.where, entry.values) for entry in choice.chosen]
    rows = [
        {
            "method": point.trial.row,
            **point.where,
            **point.trial.values,
            "validation": point.validation,
            "std": pd.Series(point.scores).std(ddof=0),
            "runs": len(point.scores),
            "chosen": (point.trial.row, point.where, point.trial.values) in taken,
        }
        for point in points
    ]
    scores = ["validation", "std", "runs", "chosen"]
    table = pd.DataFrame(rows)
    return table[[*table.columns.difference(scores, sort=False), *scores]]


def page(choice: Choice) -> str:
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
