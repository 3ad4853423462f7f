"""The figures that an experiment lists: built, and checked against its axes, before anything is trained."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from fedshift.common.errors import FedshiftError
from fedshift.common.registry import get
from fedshift.experiments.protocols import Partial
from fedshift.experiments.schema import Entry, Experiment
from fedshift.spec.block import params

DEFAULT = ["curves"]  # and `claims`, where the experiment tests some


def figures(experiment: Experiment) -> dict[str, Any]:
    """The figures (fedshift.analysis.figures) by the name of their files: the figure's, then values of the
    parameters that the experiment sets.

    Raises FedshiftError for an unknown name or parameter (with the nearest), and for a figure that is listed
    twice.
    """
    where = f"experiments/{experiment.name}.yaml: figures"
    default = [*DEFAULT, *(["claims"] if experiment.tests_claims else [])]
    built: dict[str, Any] = {}
    for file, (name, parameters) in listed(
        default if experiment.figures is None else experiment.figures, where
    ).items():
        kind = get("figures", name, where)
        built[file] = kind(params(kind, parameters, f"{where}.{name}"))
    return built


def check_figures(experiment: Experiment, axes: Mapping[str, Sequence[Any]], where: str) -> None:
    """Raise FedshiftError for a figure that cannot be drawn. axes: the values on each axis, by the name that
    tables use.
    """
    for figure in figures(experiment).values():
        for evaluation in figure.evaluations:
            asked_for(experiment, evaluation, f"{where}: figures.{figure.name}")
        figure.check(experiment, axes, f"{where}: figures.{figure.name}")


def listed(entries: Sequence[Entry], where: str) -> dict[str, tuple[str, Partial]]:
    """Entries of a list of names, or {name: parameters}, by the name of their files: the entry's, then values
    of the parameters that it sets. Raises FedshiftError for two entries of the same name.
    """
    by_file: dict[str, tuple[str, Partial]] = {}
    for entry in entries:
        named = {entry: None} if isinstance(entry, str) else entry
        if len(named) != 1:
            what = f"an entry is a name, or one name with its parameters, and not {len(named)} names"
            raise FedshiftError(where, what, "Write `- name: {parameter: value}`.")
        ((name, parameters),) = named.items()
        file = "-".join([name, *_words(parameters or {})])
        if file in by_file:
            raise FedshiftError(where, f"lists '{file}' twice", "Leave one of them out.")
        by_file[file] = name, parameters or {}
    return by_file


def asked_for(experiment: Experiment, evaluation: str, where: str) -> str:
    """The label of an experiment's results of an evaluation: of the first that it lists. Raises FedshiftError
    at `where` for one that it does not list.
    """
    place = f"experiments/{experiment.name}.yaml: evaluations"
    for label, (name, _) in listed(experiment.evaluations, place).items():
        if name == evaluation:
            return label
    what = f"needs the evaluation '{evaluation}', which the experiment does not ask for"
    raise FedshiftError(where, what, f"Add it: evaluations: [{evaluation}].")


def _words(parameters: Partial) -> list[str]:
    """Values of parameters as words of a file's name."""
    values = (value if isinstance(value, list) else [value] for value in parameters.values())
    return [re.sub(r"[^\w.]+", "-", str(value)) for several in values for value in several]
