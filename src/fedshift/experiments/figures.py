"""The figures that an experiment lists: built, and checked against its axes, before anything is trained."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fedshift.errors import FedshiftError
from fedshift.experiments.protocols import Partial
from fedshift.experiments.schema import Experiment
from fedshift.registry import get
from fedshift.resolve import params

DEFAULT = ["curves"]  # and `claims`, where the experiment tests some


def figures(experiment: Experiment) -> dict[str, Any]:
    """The figures (fedshift.analysis.figures) by the name of their files: the figure's, then values of the
    parameters that the experiment sets.

    Raises FedshiftError for a name or parameter that is not there (with the nearest), and for a figure that
    is listed twice.
    """
    where = f"experiments/{experiment.name}.yaml: figures"
    built: dict[str, Any] = {}
    for name, given in _entries(experiment, where):
        kind = get("figures", name, where)
        file = "-".join([name, *_words(given)])
        if file in built:
            raise FedshiftError(where, f"lists '{file}' twice", "Leave one of them out.")
        built[file] = kind(params(kind, given, f"{where}.{name}"))
    return built


def check_figures(experiment: Experiment, axes: Mapping[str, Sequence[Any]], where: str) -> None:
    """Raise FedshiftError for a figure that cannot be drawn. axes: the values on each axis, by the name that
    tables use.
    """
    for figure in figures(experiment).values():
        figure.check(experiment, axes, f"{where}: figures.{figure.name}")


def _entries(experiment: Experiment, where: str) -> Iterator[tuple[str, Partial]]:
    """Name and parameters of each entry."""
    default = [*DEFAULT, *(["claims"] if experiment.claims else [])]
    for entry in default if experiment.figures is None else experiment.figures:
        if isinstance(entry, str):
            yield entry, {}
        elif len(entry) == 1:
            yield from ((name, given or {}) for name, given in entry.items())
        else:
            what = f"an entry is a name, or one name with its parameters, and not {len(entry)} names"
            raise FedshiftError(where, what, "Write `- sweep: {x: ema}`.")


def _words(given: Partial) -> list[str]:
    """Values of parameters as words of a file's name."""
    values = (value if isinstance(value, list) else [value] for value in given.values())
    return [re.sub(r"[^\w.]+", "-", str(value)) for several in values for value in several]
