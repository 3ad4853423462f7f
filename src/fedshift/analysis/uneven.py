"""Uneven: cells of a table that average over fewer values of the other axes than the cells they stand beside
(`only`).
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

from fedshift.experiments.axes import NONE
from fedshift.experiments.schema import METRIC, Experiment

AVERAGE = "Average"
Use = Mapping[Any, Any]
Cell = tuple[Hashable, ...]  # the row's label, then the value on each column axis


def marked(uses: Sequence[Use], columns: Sequence[str]) -> dict[Cell, str]:
    """The cells of a table that are to be marked, with what each has: "epochs 2 of 1, 2".

    uses: `method` and the value on each axis of all planned runs; columns: the axes that the table has as
    columns. A table by target has an average over targets, too.
    """
    axes = [axis for axis in dict.fromkeys(axis for use in uses for axis in use) if axis != "method"]
    averaged = [axis for axis in axes if axis not in columns]
    cells = _fewer(uses, columns, averaged)
    if "target" in columns:
        place, rest = columns.index("target"), [column for column in columns if column != "target"]
        held_out = [use for use in uses if use.get("target", NONE) != NONE]
        for (label, *values), missing in _fewer(held_out, rest, [*averaged, "target"]).items():
            cells[(label, *values[:place], AVERAGE, *values[place:])] = missing
    return cells


def warnings(experiment: Experiment, uses: Sequence[Use]) -> list[str]:
    """What `fedshift plan` says of tables with such cells, a line for each row and reason."""
    lines = (
        f"{experiment.name}, table '{name}': '{cell[0]}' is a mean over {missing}; the table marks it."
        for name, table in experiment.tables.items()
        for cell, missing in marked(uses, [axis for axis in table.columns if axis != METRIC]).items()
    )
    return [*dict.fromkeys(lines)]


def _fewer(uses: Iterable[Use], columns: Sequence[str], averaged: Sequence[str]) -> dict[Cell, str]:
    """The cells that lack points on the averaged axes which another row has in the same column."""
    met: defaultdict[Cell, set[Cell]] = defaultdict(set)
    possible: defaultdict[Cell, set[Cell]] = defaultdict(set)
    for use in uses:
        column, point = (tuple(use.get(axis, NONE) for axis in axes) for axes in (columns, averaged))
        met[(use["method"], *column)].add(point)
        possible[column].add(point)
    fewer = {}
    for cell, own in met.items():
        if len(own) == len(whole := possible[cell[1:]]):
            continue
        parts = []
        for place, axis in enumerate(averaged):
            ours, all_of = ({point[place] for point in points} for points in (own, whole))
            if len(ours) < len(all_of):
                parts.append(f"{axis} {_listed(ours)} of {_listed(all_of)}")
        fewer[cell] = "; ".join(parts) or f"not all combinations of {' and '.join(averaged)}"
    return fewer


def _listed(values: Iterable[Any]) -> str:
    """Numbers ascending, then words."""
    return ", ".join(map(str, sorted(values, key=lambda value: (isinstance(value, str), value))))
