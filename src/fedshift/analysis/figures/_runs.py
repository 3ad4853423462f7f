"""Which runs a figure shows that draws single runs: one value on each axis, the first of the file where it
names none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from fedshift.analysis.collection.collected import Collected
from fedshift.analysis.figures.base import Figure
from fedshift.common.errors import unknown
from fedshift.experiments.schema import Experiment

HELD_OUT = {"target": "held out: {}", "seed": "seed {}"}


class OfRuns(Figure):
    """A figure whose parameter `at` names values on axes: of each row it shows one run at these."""

    def check(self, experiment: Experiment, axes: Mapping[str, Sequence[Any]], where: str) -> None:
        """Raises FedshiftError at `where` for a name that is no value of an axis (their values by axis)."""
        known = [str(value) for values in axes.values() for value in values]
        for name in self.params.at:
            if name not in known:
                raise unknown(f"{where}.at", "value of an axis", name, known)


def shown(frame: pd.DataFrame, collected: Collected, at: Sequence[str]) -> tuple[pd.DataFrame, str]:
    """The rows of `frame` at one value of each axis: that which `at` names, else the first that has rows; and
    which these are, in words.
    """
    words = []
    for axis, values in collected.order.items():
        present = [value for value in values if (frame[axis] == value).any()]
        if not present:
            continue
        chosen = next((value for value in present if str(value) in at), present[0])
        frame = frame[frame[axis] == chosen]
        if len(values) > 1 or axis == "target":
            words.append(HELD_OUT.get(axis, f"{axis} {{}}").format(chosen))
    return frame, ", ".join(words)


def rows_of(frame: pd.DataFrame, collected: Collected) -> list[str]:
    """The rows of the experiment that have a result, in the order of its file."""
    return [row for row in collected.experiment.rows if (frame["method"] == row).any()]
