"""Printed: what a template of `published` meets in reference/published.csv."""

from __future__ import annotations

import csv
import difflib
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fedshift.common.errors import FedshiftError
from fedshift.experiments.schema import FIELD, LAYER, Experiment
from fedshift.storage.workspace import Workspace


@functools.cache
def _keys(path: Path) -> frozenset[str]:
    if not path.is_file():
        return frozenset()
    with path.open(newline="") as file:
        return frozenset(row["run_key"] for row in csv.DictReader(file) if not row["same_as"])


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
