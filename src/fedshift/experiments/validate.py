"""Validate an experiment file: every method, axis, value, row, figure and claim that it names must exist."""

import difflib
import functools
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from fedshift.common.errors import FedshiftError, check_known
from fedshift.common.files import read_rows
from fedshift.common.registry import get
from fedshift.experiments.column import column, quantity
from fedshift.experiments.paper_claims import compared, paper_claim
from fedshift.experiments.protocols import Partial
from fedshift.experiments.schema import FIELD, LAYER, METRIC, Compared, Entry, Experiment, Table
from fedshift.experiments.task import Cell
from fedshift.spec.block import params
from fedshift.storage.workspace import Workspace

HOLDS_OUT = {"oracle": 1, "held_out": 2}  # the held-out domains that a rule needs to choose a round by


def check(workspace: Workspace, experiment: Experiment, cells: list[Cell]) -> None:
    """Raise FedshiftError for unknown names in tables, published values, figures or claims, and for a
    figure that cannot be plotted.
    """
    where, values = experiment.file, dict[str, list[Any]]()
    for axis, value in (item for cell in cells for item in cell.axes.items()):
        known = values.setdefault(axis, [])
        known += [] if value in known else [value]
    keys, printed = _printed(workspace.reference / "published.csv")
    if printed and experiment.paper:
        check_known(f"{where}: paper", "paper of reference/published.csv", experiment.paper, printed)
    held_out = min(len(cell.spec.data.held_out) for cell in cells)
    for name, table in experiment.tables.items():
        _table(experiment, table, [*values], held_out, f"{where}: tables.{name}")
        if printed and table.printed and not experiment.paper:
            cure = "Name it: `paper:` at the top of the file."
            raise FedshiftError(f"{where}: tables.{name}.printed", "is of no paper", cure)
        for one in table.printed if printed else ():
            of = experiment.paper
            check_known(f"{where}: tables.{name}.printed", f"table of {of}", one, sorted(printed[of]))
    _published(keys, experiment, cells, [*values])
    for name, hypothesis in experiment.hypotheses.items():
        place = f"{where}: hypotheses.{name}.metric"
        metric, how = quantity(hypothesis.metric, place)
        if hypothesis.relation == ">" and (how == "std" or get("metrics", metric).better == "lower"):
            cure = "Name a metric of which higher is better."
            raise FedshiftError(place, f"of '{hypothesis.metric}' lower is better", cure)
    for figure in figures(experiment).values():
        place = f"{where}: figures.{figure.name}"
        for evaluation in figure.evaluations:
            asked_for(experiment, evaluation, place)
        figure.check(experiment, values, place)
    for name, claim in experiment.claims.items():
        place = f"{where}: claims.{name}"
        left, right = compared(paper_claim(workspace, name, place), experiment, claim, place)
        for cell in (cell for side in (*left, *right) for cell in side.cells):
            _cell(cell, experiment, values, place)


def _cell(cell: Compared, experiment: Experiment, values: dict[str, list[Any]], where: str) -> None:
    """Check metric, axes and values of a claim's cell; for another experiment, only the metric."""
    own = column(cell.metric, f"{where}.metric")
    if own.kind == "evaluated" and cell.experiment == experiment.name:
        asked_for(experiment, own.name.partition(".")[0], f"{where}.metric")
    for axis, value in cell.where.items() if cell.experiment == experiment.name else ():
        check_known(f"{where}.where", "axis", axis, values)
        check_known(f"{where}.where.{axis}", "value of this axis", value, values[axis])


def _table(experiment: Experiment, table: Table, axes: list[str], held_out: int, where: str) -> None:
    """Check a table's columns, metrics and rules."""
    for key in ("columns", "metrics", "select"):
        entries = getattr(table, key)
        if len(set(entries)) < len(entries):
            raise FedshiftError(f"{where}.{key}", "names one thing twice", "Name each once.")
    columns = [column(metric, f"{where}.metrics") for metric in table.metrics]
    for one in columns:
        if one.kind == "evaluated":
            asked_for(experiment, one.name.partition(".")[0], f"{where}.metrics")
    if table.against:
        check_known(f"{where}.against", "row of this experiment", table.against, experiment.rows)
    if bool(table.against) != any(one.relative for one in columns):
        what = "and `gain.` or `ratio.` among metrics belong together"
        raise FedshiftError(f"{where}.against", what, "Give both, or neither.")
    if any(one.kind == "layer" for one in columns) and not (experiment.paper and len(table.printed) == 1):
        what = "has layers, which are compared with published ones"
        raise FedshiftError(where, what, "Name the paper, and its table in `printed`.")
    if not experiment.train and not all(one.declared for one in columns):
        cure = "Leave out what runs measure, or `train: false`."
        raise FedshiftError(f"{where}.metrics", "requires what runs measure, and none is trained", cure)
    for axis in table.columns:
        check_known(f"{where}.columns", "axis", axis, [*axes, METRIC])
    for rule in table.select:
        if HOLDS_OUT.get(rule, 0) > held_out:
            two = "two: target: [[reported, for choosing]]."
            cure = f"Leave it out, or hold out {'a domain in every run.' if rule == 'oracle' else two}"
            raise FedshiftError(f"{where}.select", f"'{rule}' has no held-out domain to choose by", cure)


@functools.cache
def _printed(path: Path) -> tuple[frozenset[str], dict[str, set[str]]]:
    """The keys of published numbers, and paper -> its published tables."""
    rows = read_rows(path) if path.is_file() else []
    tables: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        tables[row["paper"]].add(row["table"])
    return frozenset(row["run_key"] for row in rows if not row["same_as"]), tables


def _published(keys: frozenset[str], experiment: Experiment, cells: list[Cell], axes: list[str]) -> None:
    """Check the templates of published numbers: their rows, their fields, and that one run has a number."""
    where = f"{experiment.file}: published"
    for row in experiment.published:
        if row != "*":
            check_known(where, "row of this experiment", row, experiment.rows)
        rest = () if row != "*" else {cell.label for cell in cells} - experiment.published.keys()
        mine = [cell for cell in cells if cell.label == row or cell.label in rest]
        for template in experiment.templates(row):
            for field in FIELD.findall(template):
                check_known(f"{where}.{row}", "field", field, ["method", LAYER, *axes])
            ours = [key for cell in mine for key in _filled(template, cell)]
            if keys.isdisjoint(ours):
                first = ours[0] if ours else template
                near = difflib.get_close_matches(first, keys, n=1, cutoff=0)
                what = f"meets no published number: reference/published.csv has no '{first}'"
                raise FedshiftError(
                    f"{where}.{row}", what, f"Its nearest key is '{near[0]}'." if near else ""
                )


def _filled(template: str, cell: Cell) -> Iterator[str]:
    """The keys of one run: its own, and that of the average over targets."""
    for known in ({"target": "mean", **cell.axes}, {**cell.axes, "target": "mean"}):
        fields = {**known, "method": cell.label, LAYER: "layer1"}
        if all(field in fields for field in FIELD.findall(template)):
            yield FIELD.sub(lambda match: str(fields[match[1]]), template)  # noqa: B023  # at once


def figures(experiment: Experiment) -> dict[str, Any]:
    """The figures (fedshift.analysis.figures) by the name of their files.

    The name is the figure's, followed by the values of the parameters that the experiment sets. Raises
    FedshiftError for an unknown name or parameter (with the nearest), and for a figure that is listed twice.
    """
    where = f"{experiment.file}: figures"
    default: list[Entry] = ["curves", "claims"] if experiment.tests_claims else ["curves"]
    entries = default if experiment.figures is None else experiment.figures
    built: dict[str, Any] = {}
    for file, (name, parameters) in listed(entries, where).items():
        kind = get("figures", name, where)
        built[file] = kind(params(kind, parameters, f"{where}.{name}"))
    return built


def listed(entries: Sequence[Entry], where: str) -> dict[str, tuple[str, Partial]]:
    """Entries of a list of names, or {name: parameters}, by the name of their files.

    The name is the entry's, followed by the values of the parameters that it sets. Raises FedshiftError for
    two entries of the same name.
    """
    by_file: dict[str, tuple[str, Partial]] = {}
    for one in entries:
        named = {one: None} if isinstance(one, str) else one
        if len(named) != 1:
            what = f"an entry is a name, or one name with its parameters, and not {len(named)} names"
            raise FedshiftError(where, what, "Write `- name: {parameter: value}`.")
        ((name, parameters),) = named.items()
        values = (value if isinstance(value, list) else [value] for value in (parameters or {}).values())
        words = (re.sub(r"[^\w.]+", "-", str(value)) for several in values for value in several)
        file = "-".join([name, *words])
        if file in by_file:
            raise FedshiftError(where, f"lists '{file}' twice", "Leave one of them out.")
        by_file[file] = name, parameters or {}
    return by_file


def asked_for(experiment: Experiment, evaluation: str, where: str) -> str:
    """The label of an evaluation's first results. Raises FedshiftError if it is not listed."""
    for label, (name, _) in listed(experiment.evaluations, f"{experiment.file}: evaluations").items():
        if name == evaluation:
            return label
    what = f"needs the evaluation '{evaluation}', which the experiment does not ask for"
    raise FedshiftError(where, what, f"Add it: evaluations: [{evaluation}].")
