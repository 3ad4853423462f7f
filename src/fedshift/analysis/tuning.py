"""Tuning: choose among the points of a search, by validation alone.

The score of a run is the accuracy ALL on the clients' validation splits (weighted by training images), in the
round that the protocol's rule chooses. The score of a point is the mean over its runs. The highest score is
chosen; of equal ones, the first point. Test and held-out accuracies are not read.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fedshift.analysis.collected import Collected
from fedshift.analysis.page import piped
from fedshift.analysis.quantities import PLACE, aggregated
from fedshift.analysis.quantities import choose as choose_round
from fedshift.common.errors import FedshiftError
from fedshift.common.files import write_text
from fedshift.common.yaml_file import written
from fedshift.experiments.column import DEFAULT
from fedshift.experiments.schema import Experiment
from fedshift.experiments.tuning import Choice, Chosen, place, trials
from fedshift.storage.rundir import State
from fedshift.storage.workspace import Workspace

VALIDATION = "val"


def tried(workspace: Workspace, experiment: Experiment, collected: Collected) -> pd.DataFrame:
    """One row for every point of the search at every place, in the order of the file, with these columns.

    `row`, `values`: the point.
    `where`: axis -> value, for the axes that are tuned value by value, in JSON.
    `scores`: of its runs, in percent; NaN for a failed run.
    `runs`: their ids.

    `collected`: the runs of the experiment's tuning.

    Raises FedshiftError if one of them has not been trained yet.
    """
    missing = collected.runs["state"].isin([State.MISSING, State.RUNNING])
    if missing.any():
        what = f"{missing.sum()} of {len(missing)} runs of the search are not finished"
        cure = f"To train them: fedshift run {experiment.name}.tuning"
        raise FedshiftError(f"{experiment.file}: tune", what, cure)
    rounds = aggregated(collected, DEFAULT, [VALIDATION]).reset_index()
    chosen = choose_round(rounds, [PLACE], collected.protocol.select).set_index(PLACE)
    by_label = {trial.label: trial for trial in trials(workspace, experiment)}
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for run in collected.runs.assign(score=chosen[VALIDATION]).to_dict("records"):
        where = json.dumps(place(experiment, {axis: run[axis] for axis in collected.keys[1:]}))
        new = {**by_label[run["method"]]._asdict(), "where": where, "scores": [], "runs": []}
        point = found.setdefault((run["method"], where), new)
        point["scores"].append(run["score"])
        point["runs"].append(run["digest"])
    return pd.DataFrame(found.values())


def best(points: pd.DataFrame, rule: str) -> Choice:
    """The point with the highest score for each row and place; of equal ones, the first.

    The score is the mean over its runs. A point of which a run failed or is not finite has none.

    Raises FedshiftError if all points failed.
    """
    chosen = []
    for _, group in points.groupby(["row", "where"], sort=False):
        row, where = group["row"].iloc[0], json.loads(group["where"].iloc[0])
        usable = validation(group).dropna()
        if usable.empty:
            what = f"all {len(group)} points of '{row}' at {where} failed or are not finite"
            raise FedshiftError("tune", what, "Give the row other values (`grid` in reference/presets).")
        taken = group.loc[usable[usable == usable.max()].index[0]]
        chosen.append(
            Chosen(
                row=row,
                where=where,
                values=taken["values"],
                validation=float(usable.max()),
                points=len(group),
                failed=len(group) - len(usable),
                runs=taken["runs"],
            )
        )
    return Choice(rule=rule, chosen=chosen)


def validation(points: pd.DataFrame) -> pd.Series[float]:
    """The mean of each point's scores; NaN if one of them failed or is not finite."""
    means = points["scores"].map(lambda scores: round(math.fsum(scores) / len(scores), 9))
    return means.where(np.isfinite(means))


def write(workspace: Workspace, experiment: Experiment, collected: Collected) -> Path:
    """Choose the points, and write the experiment's preset (`experiments.choice`). Returns the preset's path.

    All points of the search are written to results/tables/<experiment>/searched.csv: values, mean score, its
    deviation, number of runs, and whether the point was chosen.
    """
    points = tried(workspace, experiment, collected)
    choice = best(points, collected.protocol.select)
    taken = [(one.row, json.dumps(one.where), one.values) for one in choice.chosen]
    own = [*points[["row", "where", "values"]].itertuples(index=False, name=None)]
    settings = pd.DataFrame({"method": row, **json.loads(where), **values} for row, where, values in own)
    scores = pd.DataFrame(
        {
            "validation": validation(points),
            "std": [pd.Series(scores).std(ddof=0) for scores in points["scores"]],
            "runs": points["runs"].map(len),
            "chosen": [point in taken for point in own],
        }
    )
    searched = pd.concat([settings.drop(columns=scores.columns, errors="ignore"), scores], axis=1)
    write_text(workspace.tables(experiment.name) / "searched.csv", searched.to_csv(index=False))
    path = workspace.tuned(experiment.name)
    content = written(choice.model_dump(), default_flow_style=None, width=110)
    write_text(path, f"# Written by `fedshift tune {experiment.name}`: docs/tuning.md.\n{content}")
    return path


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
