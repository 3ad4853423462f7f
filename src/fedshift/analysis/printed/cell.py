"""Printed cell: the paper's number of a table's cell, and what the cell's runs have otherwise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pandas as pd

from fedshift.analysis.printed.comparable import differences
from fedshift.analysis.printed.names import DECLARED
from fedshift.analysis.printed.published import Published, find, scaled
from fedshift.experiments.column import column
from fedshift.experiments.protocols import Protocol
from fedshift.experiments.schema import Experiment, Table
from fedshift.storage.workspace import Workspace

UNIT = "the row that the table's ratios are to"


def printed_cell(
    workspace: Workspace,
    experiment: Experiment,
    protocol: Protocol,
    table: Table,
    place: tuple[str, dict[str, Any], str],
    runs_of: Callable[[str], pd.DataFrame],
) -> tuple[Published | None, list[str]]:
    """The number, None where the paper prints none, and each setting in which the cell's runs are not its.

    place: row, values on the axes ("mean": averaged over targets) and metric; runs_of: the runs of a row in
    the same column, rows of Collected.runs. What a declaration says itself is compared whatever else is
    declared.
    """
    row, values, metric = place
    own = column(metric)
    printed = find(workspace, experiment, row, values, metric)
    if printed is None or printed.name.startswith(DECLARED):
        return printed, []
    differs = differences(workspace, protocol, printed, runs_of(row))
    if own.relative == "gain":  # of the paper's method as it is over what the row is of
        of = replace(printed, row=printed.row._replace(variant="default"))
        differs += differences(workspace, protocol, of, runs_of(table.against))
    if own.relative == "ratio":
        differs += [UNIT] if row == table.against else []
        base = find(workspace, experiment, table.against, values, metric)
        differs += differences(workspace, protocol, base, runs_of(table.against)) if base else []
        printed = scaled(workspace, experiment, table, values, metric, printed)
    return printed, list(dict.fromkeys(differs))
