"""Validate the cross-references of an experiment file: every method, axis, value, row and claim that it
names exists.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from fedshift.common.errors import FedshiftError, unknown
from fedshift.common.files import read_rows
from fedshift.common.registry import get, names
from fedshift.common.yaml_file import written
from fedshift.experiments.axes import Axis, entry
from fedshift.experiments.column import column
from fedshift.experiments.figures import asked_for, check_figures
from fedshift.experiments.paper_claims import compared, paper_claim
from fedshift.experiments.schema import FIELD, LAYER, METRIC, Compared, Experiment
from fedshift.spec import RunSpec
from fedshift.storage.workspace import Workspace

UNSET = object()
WHOSE = "A row with a name of its own says whose it is: {}: {{method: {{name: fedavg}}}}."
HOLDS_OUT = {"oracle": 1, "held_out": 2}  # the held-out domains that a rule needs to choose a round by


def check_only(experiment: Experiment, axes: list[Axis], where: str) -> None:
    """`only` names methods, axes, and values that are on these."""
    values = {axis.name: axis.values for axis in axes}
    for label, fewer in experiment.only.items():
        _known(f"{where}: only", "method of this experiment", label, experiment.methods)
        for axis, wanted in fewer.items():
            _known(f"{where}: only.{label}", "axis", axis, values)
            if not wanted:
                raise FedshiftError(
                    f"{where}: only.{label}.{axis}", "has no value", "List values of the axis."
                )
            for value in wanted:
                _known(f"{where}: only.{label}.{axis}", "value of this axis", value, values[axis])


def check_rows(experiment: Experiment, rows: set[tuple[str, str]], where: str) -> None:
    """Each row is of a method, whose parameters stand below `method.params`; rows: label and method."""
    for label, method in sorted(rows):
        if method not in names("methods"):
            error = unknown(f"{where}: {label}: method.name", "method", method, names("methods"), "methods")
            if label == method:
                error = FedshiftError(error.where, error.what, f"{error.cure} {WHOSE.format(label)}")
            raise error
        for key in entry(experiment, label)[1].keys() - RunSpec.model_fields.keys():
            if key in _parameters(method, where):
                cure = f"Did you mean 'method.params.{key}'?"
                raise FedshiftError(f"{where}: {label}", f"unknown key '{key}'", cure)


def check_common(experiment: Experiment, axes: list[Axis], where: str) -> None:
    """What the axes vary is not set for all runs in `spec`, where it would be without effect."""
    for axis in axes:
        value: Any = experiment.spec
        for word in axis.key.split("."):
            value = value.get(word, UNSET) if isinstance(value, dict) else UNSET
        if value is not UNSET:
            what = f"is set for all runs, and the axis '{axis.name}' varies it"
            raise FedshiftError(f"{where}: spec.{axis.key}", what, "Leave one of the two out.")


def check_parameters(axes: list[Axis], rows: set[tuple[str, str]], where: str) -> None:
    """An axis of a method's parameter is a parameter of every row's method, or of none of them (a misspelled
    name, which `resolve` reports).

    rows: label and method.
    """
    for axis in axes:
        block, _, name = axis.key.partition(".params.")
        if block != "method" or not name:
            continue
        lacks = {row: name not in _parameters(row[1], f"{where}: {row[0]}") for row in sorted(rows)}
        if not any(lacks.values()) or all(lacks.values()):
            continue
        label, method = next(row for row in lacks if lacks[row])
        having, other = next(row for row in lacks if not lacks[row])
        value = written(axis.values[0], default_flow_style=True).removesuffix("\n...\n").strip()
        cure = (
            "Leave the axis out and write its values as rows below `methods`: "
            f"{having}-{value}: {{method: {{name: {other}, params: {{{name}: {value}}}}}}}, and so on."
        )
        raise FedshiftError(
            f"{where}: axes.{axis.name}",
            f"the method of '{label}', {method}, has no parameter '{name}'",
            cure,
        )


def _parameters(method: str, where: str) -> list[str]:
    kind = get("methods", method, f"{where}: method.name").Params
    return [field.name for field in dataclasses.fields(kind)]


def check(
    workspace: Workspace, experiment: Experiment, uses: list[tuple[str, dict[str, Any], RunSpec]]
) -> None:
    """Every name in tables, published values and claims; `uses` are the row, the values on the
    axes and the spec of every run.
    """
    where = f"experiments/{experiment.name}.yaml"
    values: dict[str, list[Any]] = {}
    for _, point, _ in uses:
        for axis, value in point.items():
            values.setdefault(axis, [])
            values[axis] += [] if value in values[axis] else [value]
    _tables(experiment, list(values), min(len(spec.data.held_out) for *_, spec in uses), where)
    _published(experiment, list(values), where)
    check_figures(experiment, values, where)
    check_names(workspace, experiment, where)
    check_printed(workspace, experiment, [(label, point) for label, point, _ in uses], where)
    for name, claim in experiment.claims.items():
        place = f"{where}: claims.{name}"
        sides = compared(paper_claim(workspace, name, place), experiment, claim, place)
        for side in (*sides.left, *sides.right):
            if isinstance(side, Compared):
                _side(side, experiment, values, place)


def _side(side: Compared, experiment: Experiment, values: dict[str, list[Any]], where: str) -> None:
    """Check metric, axes and values of a claim's side; of another experiment the metric alone."""
    own = column(side.metric, f"{where}.metric")
    if own.kind == "evaluated" and side.experiment == experiment.name:
        asked_for(experiment, own.name.partition(".")[0], f"{where}.metric")
    for axis, value in side.where.items() if side.experiment == experiment.name else ():
        _known(f"{where}.where", "axis", axis, values)
        _known(f"{where}.where.{axis}", "value of this axis", value, values[axis])
    for other in (*side.plus, *side.minus):
        _side(other, experiment, values, where)


def _tables(experiment: Experiment, axes: list[str], held_out: int, where: str) -> None:
    """Check the columns, metrics and rules of every table."""
    for name, table in experiment.tables.items():
        place = f"{where}: tables.{name}"
        for key in ("columns", "metrics", "select"):
            entries = getattr(table, key)
            if len(set(entries)) < len(entries):
                raise FedshiftError(f"{place}.{key}", "names one thing twice", "Name each once.")
        columns = [column(metric, f"{place}.metrics") for metric in table.metrics]
        for one in columns:
            if one.kind == "evaluated":
                asked_for(experiment, one.name.partition(".")[0], f"{place}.metrics")
        if table.against:
            _known(f"{place}.against", "row of this experiment", table.against, experiment.rows)
        if bool(table.against) != any(one.relative for one in columns):
            what = "and `gain.` or `ratio.` among metrics belong together"
            raise FedshiftError(f"{place}.against", what, "Give both, or neither.")
        if any(one.kind == "layer" for one in columns) and not (experiment.paper and len(table.printed) == 1):
            what = "has layers, which stand beside those that a paper prints"
            raise FedshiftError(place, what, "Name the paper, and its table in `printed`.")
        if not experiment.train and not all(one.declared for one in columns):
            cure = "Leave out what runs measure, or `train: false`."
            raise FedshiftError(f"{place}.metrics", "asks for what runs measure, and none is trained", cure)
        for axis in table.columns:
            _known(f"{place}.columns", "axis", axis, [*axes, METRIC])
        for rule in table.select:
            if HOLDS_OUT.get(rule, 0) > held_out:
                cure = "Leave it out, or hold out " + (
                    "a domain in every run."
                    if rule == "oracle"
                    else "two: target: [[reported, for choosing]]."
                )
                raise FedshiftError(f"{place}.select", f"'{rule}' has no held-out domain to choose by", cure)


def _published(experiment: Experiment, axes: list[str], where: str) -> None:
    for row in experiment.published:
        place = f"{where}: published.{row}"
        if row != "*":
            _known(f"{where}: published", "row of this experiment", row, experiment.rows)
        template = " ".join(experiment.templates(row))
        for field in FIELD.findall(template):
            _known(place, "field", field, ["method", LAYER, *axes])
        if set("{}") & set(FIELD.sub("", template)):
            raise FedshiftError(place, "has a brace without its other", "Write {method} or {<axis>}.")


def _known(where: str, kind: str, name: object, valid: Sequence[Any] | dict[str, Any]) -> None:
    if name not in valid:
        raise unknown(where, kind, str(name), map(str, valid))


@functools.cache
def _rows(path: Path) -> list[dict[str, str]]:
    return read_rows(path) if path.is_file() else []


@functools.cache
def _keys(path: Path) -> frozenset[str]:
    return frozenset(row["run_key"] for row in _rows(path) if not row["same_as"])


@functools.cache
def _printed_tables(path: Path) -> dict[str, set[str]]:
    """Paper -> its printed tables."""
    tables: dict[str, set[str]] = {}
    for row in _rows(path):
        tables.setdefault(row["paper"], set()).add(row["table"])
    return tables


def check_names(workspace: Workspace, experiment: Experiment, where: str) -> None:
    """Raises FedshiftError for a paper, or a table of it, of which nothing is printed: its numbers would be
    missing from every verdict, without a word.
    """
    known = _printed_tables(workspace.reference / "published.csv")
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
