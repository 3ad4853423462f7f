"""What finished runs give: `fedshift.evaluate` of one of them, `fedshift.results` of an experiment's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from fedshift.analysis.clients import left_out
from fedshift.analysis.collect import collect
from fedshift.analysis.quantities import named, selected_by_place
from fedshift.analysis.values import PLACE
from fedshift.api._arguments import Root, plain
from fedshift.api._arguments import workspace as workspace_of
from fedshift.api.runs import Run, Select
from fedshift.evaluations.base import read
from fedshift.experiments.column import measured_on_clients
from fedshift.experiments.protocols import Rule
from fedshift.experiments.task import Task
from fedshift.training import evaluate as evaluation_of
from fedshift.training.device import device as device_of
from fedshift.training.device import require


def evaluate(
    run: Run,
    evaluation: str,
    *,
    select: Select = "best_first",
    full_domain: bool = False,
    device: str = "auto",
    **params: Any,
) -> pd.DataFrame:
    """Compute an evaluation (`fedshift list evaluations`) of a finished run from the weights that it kept;
    what has been computed is only read. Returns its table, one row as docs/columns.md says.

    select: of which round: "last", "best_first" or "best_later"
    full_domain: all images of the held-out domain, not those alone that the run tests
    device: "cpu", "cuda", or "auto": a GPU where there is one
    params: the evaluation's own
    Raises FedshiftError for an unknown evaluation or parameter, for a run without weights, and for a GPU
    that does not work here.

    >>> run = fedshift.run("fedavg", "digits", "ink", rounds=2)
    >>> features = fedshift.evaluate(run, "features", images=50)
    >>> set(features["domain"]) == {"plain", "ink", "texture", "outline"}
    True
    >>> int(features.groupby("client").size().max())
    50
    """
    task = Task(evaluation, plain(params), select, "full_domain" if full_domain else "tested")
    require(where := device_of(str(device)))
    (path,) = evaluation_of.evaluate(run.workspace, run.path, [task], where)
    return pd.DataFrame(read(path)[0].to_pandas())


def results(
    experiment: str,
    metrics: str | Sequence[str] = ("id", "ood"),
    *,
    select: Rule | None = None,
    root: Root = None,
) -> pd.DataFrame:
    """One row per finished (or archived) run of an experiment: `method`, its axes, `round`, and `metrics` as
    tables name them, in percent where they are fractions ("ece.ood": `fedshift list metrics`). Where a run's
    mean over clients leaves some out, the column `clients` has "2 of 3"; else there is no such column.

    select: the rule that chooses the round, by default the protocol's
    Nothing is trained; it gathers what is there. Raises FedshiftError for an unknown experiment or metric.

    >>> frame = fedshift.results("demo")
    >>> list(frame.columns)
    ['method', 'target', 'seed', 'round', 'id', 'ood']
    """
    asked = [metrics] if isinstance(metrics, str) else plain(metrics)
    collected = collect(workspace_of(root), str(plain(experiment)))
    chosen = selected_by_place(collected, select, asked)
    frame = named(collected, chosen)[[*collected.keys, "round", *asked]]
    for metric in dict.fromkeys(filter(None, map(measured_on_clients, asked))):
        few = left_out(collected, metric, select)[chosen[PLACE]]
        if few.any():
            frame["clients"] = few.to_numpy()
    return frame
