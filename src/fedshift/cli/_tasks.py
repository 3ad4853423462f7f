"""The tasks of `fedshift evaluate` on an experiment: by the names of their files, each with its runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from fedshift.cli._options import unchanged
from fedshift.common.errors import FedshiftError
from fedshift.common.files import canonical_json
from fedshift.experiments.expand import evaluations
from fedshift.experiments.task import Images, Task
from fedshift.planning import planfile
from fedshift.storage.workspace import Workspace

if TYPE_CHECKING:
    from fedshift.analysis.collect import Use
    from fedshift.experiments.schema import Experiment

Tasks = dict[str, "tuple[Task, list[Use]]"]


def declared(workspace: Workspace, experiment: Experiment, uses: list[Use], plan: Path | None) -> Tasks:
    """The evaluations and adaptations of an experiment's file, or of a plan. Raises FedshiftError where there
    is none, or where the code has changed since it was planned.
    """
    if plan is None:
        tasks = evaluations(workspace, experiment)
        texts = {label: canonical_json(task.declared()) for label, task in tasks.items()}
    else:
        entries = (entry for entry in planfile.load(plan).evaluations if entry.experiment == experiment.name)
        texts = {entry.label: entry.task for entry in entries}
    runs = _runs(uses)
    by_label = {label: (text, runs) for label, text in texts.items()}
    for use in uses:
        if use.adaptation:
            by_label.setdefault(use.label, (use.adaptation, []))[1].append(use)
    if not by_label:
        cure = "Say what by `evaluations` or `adapt`, or name an EVALUATION: docs/add-an-evaluation.md."
        raise FedshiftError(f"experiments/{experiment.name}.yaml", "evaluates nothing", cure)
    return {label: (_task(text), of) for label, (text, of) in by_label.items()}


def named(
    workspace: Workspace, experiment: Experiment, uses: list[Use], name: str, params: dict[str, object],
    selection: str | None, images: Images,
) -> Tasks:  # fmt: skip
    """The evaluation that the caller names, of an experiment's runs. Raises FedshiftError for a parameter
    that it has not.
    """
    alone = experiment.model_copy(update={"evaluations": [{name: params}]})
    ((label, task),) = evaluations(workspace, alone).items()
    task = Task(name, params, selection or task.selection, images)
    task.declared()
    label = "-".join([label, *([selection] if selection else []), *([images] if images != "tested" else [])])
    return {label: (task, _runs(uses))}


def _runs(uses: list[Use]) -> list[Use]:
    return [use for use in uses if not use.adaptation]


def _task(text: str) -> Task:
    """The task of a plan (JSON, with its code). Raises FedshiftError where the code has changed since."""
    task = Task(**json.loads(text)["task"])
    unchanged(f"evaluation {task.evaluation}", text, canonical_json(task.declared()))
    return task
