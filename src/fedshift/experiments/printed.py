"""Printed: the paper, the tables and the numbers of reference/published.csv that an experiment names."""

from __future__ import annotations

import difflib
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fedshift.common.errors import FedshiftError, unknown
from fedshift.common.files import read_rows
from fedshift.experiments.schema import FIELD, LAYER, Experiment
from fedshift.storage.workspace import Workspace


@functools.cache
def _rows(path: Path) -> list[dict[str, str]]:
    return read_rows(path) if path.is_file() else []


@functools.cache
def _keys(path: Path) -> frozenset[str]:
    return frozenset(row["run_key"] for row in _rows(path) if not row["same_as"])


@functools.cache
def _tables(path: Path) -> dict[str, set[str]]:
    """Paper -> its printed tables."""
    tables: dict[str, set[str]] = {}
    for row in _rows(path):
        tables.setdefault(row["paper"], set()).add(row["table"])
    return tables


def check_names(workspace: Workspace, experiment: Experiment, where: str) -> None:
    """Raises FedshiftError for a paper, or a table of it, of which nothing is printed: its numbers would be
    missing from every verdict, without a word.
    """
    known = _tables(workspace.reference / "published.csv")
    if not known:
        return
    if experiment.paper and experiment.paper not in known:
        raise unknown(f"{where}: paper", "paper of reference/published.csv", experiment.paper, [*known])
    for name, table in experiment.tables.items():
        place = f"{where}: tables.{name}.printed"
        if table.printed and not experiment.paper:
            raise FedshiftError(place, "is of no paper", "Name it: `paper:` at the top of the file.")
        for printed in table.printed:
            if printed not in known[experiment.paper]:
                every = sorted(known[experiment.paper])
                raise unknown(place, f"table of {experiment.paper}", printed, every)


def check_printed(
    workspace: Workspace, experiment: Experiment, uses: list[tuple[str, dict[str, Any]]], where: str
) -> None:
    """Raises FedshiftError for a template that meets no printed number, whichever run it is filled in for;
    uses: label and values on the axes.

    A run of which the paper prints nothing is no mistake, as long as another of the template's has a number.
    """
    printed = _keys(workspace.reference / "published.csv")
    templates = [(row, text) for row in experiment.published for text in experiment.templates(row)]
    for row, template in templates:
        mine = [use for use in uses if use[0] == row or (row == "*" and use[0] not in experiment.published)]
        keys = list(dict.fromkeys(key for label, values in mine for key in _filled(template, label, values)))
        if printed.isdisjoint(keys):
            first = keys[0] if keys else template
            near = difflib.get_close_matches(first, printed, n=1, cutoff=0)
            what = f"meets no printed number: reference/published.csv has no '{first}'"
            raise FedshiftError(
                f"{where}: published.{row}", what, f"Its nearest key is '{near[0]}'." if near else ""
            )


def _filled(template: str, label: str, values: dict[str, Any]) -> Iterator[str]:
    """The keys of one run: its own, and the average's over targets."""
    for known in ({"target": "mean", **values}, {**values, "target": "mean"}):
        fields = {**known, "method": label, LAYER: "layer1"}
        if all(field in fields for field in FIELD.findall(template)):
            yield "".join(
                str(fields[part]) if place % 2 else part for place, part in enumerate(FIELD.split(template))
            )
