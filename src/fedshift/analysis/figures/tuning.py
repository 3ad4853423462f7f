"""Tuning: validation accuracy over the searched settings of a tuned experiment, the choice marked."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedshift.analysis import tuning
from fedshift.analysis.collection.collected import Collected, read
from fedshift.analysis.drawing.panels import Axis, Panel, Panels, Row, Series, Style
from fedshift.analysis.figures._marks import SETTING, axis_name
from fedshift.analysis.figures._runs import HELD_OUT
from fedshift.analysis.figures.base import Figure
from fedshift.analysis.tuning import Tried
from fedshift.common.errors import FedshiftError, unknown
from fedshift.experiments.schema import Experiment
from fedshift.experiments.tuning import stage_of
from fedshift.storage.workspace import Workspace

ALL = "points tried"
TAKEN = "chosen"
APART = 1 / 5  # of the axis, between two ticks that are both written


@dataclass(frozen=True)
class Params:
    """rows: of which rows; none: of all that are searched."""

    rows: tuple[str, ...] = ()


class Tuning(Figure):
    """A row per method, a panel per setting of its search: every point by its value there and its mean
    validation accuracy ALL; a ring is around what was chosen. Points of a grid stand above each other, for
    they differ in the other settings.
    """

    name = "tuning"
    Params = Params

    def check(self, experiment: Experiment, axes: Mapping[str, Sequence[Any]], where: str) -> None:
        """The experiment is tuned, and searches these rows."""
        if experiment.tune is None:
            what = "draws what a search tried, and this experiment is not tuned"
            raise FedshiftError(where, what, "Leave it out, or say `tune`.")
        for row in self.params.rows:
            if row not in experiment.methods:
                raise unknown(f"{where}.rows", "trained row of this experiment", row, experiment.methods)

    def panels(self, workspace: Workspace, collected: Collected) -> Panels:
        """Raises FedshiftError where the search was not collected, or is not finished."""
        experiment = collected.experiment
        search = read(workspace, stage_of(experiment.name))
        points = tuning.tried(workspace, experiment, search)
        taken = tuning.best(points, search.protocol.select).chosen
        choices = [(entry.row, entry.where, entry.values) for entry in taken]
        searched: dict[str, list[Tried]] = {}
        for point in points:
            if point.trial.values and point.trial.row in (self.params.rows or {point.trial.row}):
                searched.setdefault(point.trial.row, []).append(point)
        if not searched:
            what = "its search has no setting with a value"
            raise FedshiftError(f"experiments/{experiment.name}.yaml: tune", what, "Leave the figure out.")
        keys = dict.fromkeys(key for of in searched.values() for point in of for key in point.trial.values)
        rows = [Row([_panel(of, key, choices) for key in keys], row) for row, of in searched.items()]
        labels = [*dict.fromkeys(map(_where, points))]
        note = "a mark: a setting that was tried; ring: chosen, by validation alone"
        return Panels("Search", rows, labels, note, (2.6, 1.5), names="beside")


def _panel(points: list[Tried], key: str, choices: list[tuple[str, dict[str, Any], dict[str, Any]]]) -> Panel:
    """One setting: its values along x, numbers on a log scale where they are positive, else names."""
    y = Axis("validation\naccuracy ALL (%)")
    points = [point for point in points if key in point.trial.values]
    if not points:
        return Panel([], Axis(axis_name(SETTING + key)), y, inside="not searched")
    values: list[Any] = [point.trial.values[key] for point in points]
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    order: list[Any] = sorted({*values}) if numbers else [*dict.fromkeys(map(str, values))]
    positions = {str(value): float(value) if numbers else float(place) for place, value in enumerate(order)}
    log = numbers and order[0] > 0 and order[-1] > 4 * order[0]
    ticks = {positions[str(value)]: f"{value:g}" if numbers else str(value) for value in order}
    x = Axis(axis_name(SETTING + key), "log" if log else "linear", _written(ticks, log) if numbers else ticks)
    places = [positions[str(value)] for value in values]
    return Panel([*_series(points, places, choices)], x, y)


def _series(
    points: list[Tried], places: list[float], choices: list[tuple[str, dict[str, Any], dict[str, Any]]]
) -> Iterator[Series]:
    """Dots by the values of the axes that are tuned one by one, with rings around the chosen ones."""
    placed = [*zip(places, points, strict=True)]
    placed = [(place, point) for place, point in placed if point.validation == point.validation]
    for label in dict.fromkeys(_where(point) for _, point in placed):
        own = [(place, point) for place, point in placed if _where(point) == label]
        taken = [pair for pair in own if (pair[1].trial.row, pair[1].where, pair[1].trial.values) in choices]
        marks: tuple[tuple[list[tuple[float, Tried]], str, Style], ...] = (
            (own, "point", "dot"),
            (taken, TAKEN, "around"),
        )
        for pairs, mark, style in marks:
            yield Series(label, mark, [x for x, _ in pairs], [point.validation for _, point in pairs], style)


def _written(ticks: dict[float, str], log: bool) -> dict[float, str]:
    """Ticks with the texts of those left out that would lie on their neighbour's."""
    at = {place: math.log(place) if log else place for place in ticks}
    span, last, written = max(at.values()) - min(at.values()), -math.inf, {}
    for place, text in ticks.items():
        if at[place] - last >= APART * span:
            written[place], last = text, at[place]
    return written


def _where(point: Tried) -> str:
    words = (HELD_OUT.get(axis, f"{axis} {{}}").format(value) for axis, value in point.where.items())
    return ", ".join(words) or ALL
