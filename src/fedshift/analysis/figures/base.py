"""Figure: what every figure is, and the plot that it returns."""

from __future__ import annotations

import fnmatch
import hashlib
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedshift.analysis.collected import Collected
from fedshift.common.errors import FedshiftError, unknown
from fedshift.experiments.column import quantity
from fedshift.experiments.schema import Experiment
from fedshift.experiments.validate import figures
from fedshift.storage.workspace import Workspace

Axes = Mapping[str, Sequence[Any]]  # the values on each axis, by the name that tables use
COLUMNS = ["row", "panel", "label", "mark", "x", "y", "low", "high", "x_axis", "y_axis"]
DEFAULTS: Any = {"row": "", "panel": "", "mark": "mean", "style": "dot", "low": np.nan, "high": np.nan}

# Colours of all labels: Okabe and Ito's without yellow, which is faint on white, then Tol's.
PALETTE = [
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9",
    "#882255", "#332288", "#999933", "#44AA99", "#994F00", "#AA4499",
]  # fmt: skip
MARKERS = ["o", "s", "^", "v", "P", "X", "*", "<", ">", "p"]
METHODS = [  # each has its look in all figures: those that are plotted together come first, a new one last
    "fedavg", "fdse", "fedrd", "hfedf", "stablefdg", "fedprox", "scaffold", "fedbn",
    "fedsr", "ditto", "mixstyle", "feddg", "ccst", "dsu", "fedgma", "pfedhn",
    "fedheal", "feddg_ga", "fediir", "feddyn", "moon", "lgfedavg", "partialfed", "fedfa",
]  # fmt: skip
BOUNDS = {"local": ("#57606a", "s"), "central": ("#8c959f", "D")}  # lower and upper bound: grey


def _among(
    kind: str, names: Callable[[Experiment, Axes], Iterable[str]], pattern: bool = False
) -> Callable[..., None]:
    """A check that a text is one of these names of an experiment, or a pattern that matches some."""

    def check(text: str, where: str, experiment: Experiment, axes: Axes) -> None:
        valid = [*names(experiment, axes)]
        if not (fnmatch.filter(valid, text) if pattern else text in valid):
            raise unknown(where, kind, text, valid)

    return check


# Types of parameters that `Figure.check` checks, one by one in a tuple; "" is not checked.
Metric = Annotated[str, lambda text, where, *_: quantity(text, where)]
Row = Annotated[str, _among("row of this experiment", lambda experiment, _: experiment.rows)]
Rows = Annotated[str, _among("row of this experiment", lambda experiment, _: experiment.rows, pattern=True)]
Trained = Annotated[str, _among("trained row of this experiment", lambda experiment, _: experiment.methods)]
TrainedRows = Annotated[
    str, _among("trained row of this experiment", lambda experiment, _: experiment.methods, pattern=True)
]
AxisName = Annotated[str, _among("axis", lambda _, axes: ["method", *axes])]
AxisValue = Annotated[
    str, _among("value of an axis", lambda _, axes: [str(one) for of in axes.values() for one in of])
]


class Look(NamedTuple):
    """colour: "#rrggbb"; marker: matplotlib's; place: chooses the hatch, and where a line has its markers."""

    colour: str
    marker: str
    place: int


@dataclass(frozen=True)
class Axis:
    """An axis of a plot. Values that are text are names, which stand side by side in the order of `names`.

    label: what it measures, with the unit
    scale: linear or log
    names: all names in their order; without, those of the panel as they appear
    ticks: of numbers, where they are few
    limits: first and last number; what lies beyond is cut there, with an arrow
    whole: ticks at whole numbers only
    from_zero: begins at 0
    """

    label: str = ""
    scale: Literal["linear", "log"] = "linear"
    names: Sequence[str] | None = None
    ticks: Sequence[float] | None = None
    limits: tuple[float, float] | None = None
    whole: bool = False
    from_zero: bool = False


@dataclass(frozen=True)
class Plot:
    """A figure as a table of what it plots, with its axes.

    title: of the figure's kind ("Learning curves")
    frame: a row per plotted value, in the order of drawing. Columns:
        label: whose value it is, which gives colour, marker and the entry in the legend;
        x, y: numbers or names; x of a level is not read;
        mark: what the value is: "mean" (default), "seed 0", "published";
        style: line (with some markers), marked (a line with a marker at each value), thin (a faint line),
            level (dashed, across the panel), bar (from 0), or a marker at each value: dot (default), ring,
            square, open (a square), diamond;
        low, high: both ends of the interval around it, along x where y has names;
        panel, row: titles of the panel and heading of the row of panels, "" for a single one;
        y_axis: the label of its axis, where `y` has several. A row of panels is of one y_axis.
    x, y: its axes; y may be several
    labels: all labels in the order of the legend; without, as they appear
    note: what bands and marks are
    size: width and height of a panel, inches
    colours: of labels that do not take the fixed ones, "#rrggbb"
    rules: axis -> values at which a thin line crosses every panel
    texts: (row, label of the y axis, panel) -> a few words in the lower right corner
    pictures: (row, label of the y axis, panel) -> pixels [h, w, 3] uint8 in place of axes; the frame has the
        numbers that belong to it
    polar: panels are radars: the names of x are directions, y is the distance from the middle
    """

    title: str
    frame: pd.DataFrame
    x: Axis
    y: Axis | Sequence[Axis]
    labels: Sequence[str] = ()
    note: str = ""
    size: tuple[float, float] = (3.6, 2.7)
    colours: Mapping[str, str] = field(default_factory=dict)
    rules: Mapping[Literal["x", "y"], Sequence[float]] = field(default_factory=dict)
    texts: Mapping[tuple[str, str, str], str] = field(default_factory=dict)
    pictures: Mapping[tuple[str, str, str], NDArray[np.uint8]] = field(default_factory=dict)
    polar: bool = False

    def __post_init__(self) -> None:
        frame = self.frame.reset_index(drop=True)
        for name, value in {**DEFAULTS, "y_axis": self.axes[0].label}.items():
            frame[name] = frame[name].fillna(value) if name in frame else value
        numbers = [name for name in ("x", "y", "low", "high") if not is_text(frame[name]).any()]
        object.__setattr__(self, "frame", frame.astype(dict.fromkeys(numbers, float)))
        object.__setattr__(self, "labels", [*(self.labels or self.frame["label"].unique())])

    @property
    def axes(self) -> list[Axis]:
        """The y axes."""
        return [self.y] if isinstance(self.y, Axis) else [*self.y]

    @property
    def looks(self) -> dict[str, Look]:
        """Each label's look. Methods and bounds have the same in all figures. That of another label follows
        from its name (of a variant from its method: "fedavg-uniform"), or is the next one whose colour no
        label before it has.
        """
        own = [label for label in self.labels if label not in self.colours]
        places = {label: METHODS.index(label) for label in own if label in METHODS}
        looks = {}
        for label in self.labels:
            method, number = label.partition("-")[0], hashlib.sha256(label.encode()).digest()[0]
            first = METHODS.index(method) if method in METHODS else number % len(PALETTE)
            if label in own and label not in BOUNDS:
                places.setdefault(label, _free(first, {*places.values()}))
            place = places.get(label, first)
            fixed = PALETTE[place % len(PALETTE)], MARKERS[place % len(MARKERS)]
            colour, marker = BOUNDS.get(label, fixed)
            looks[label] = Look(self.colours.get(label, colour), marker, place)
        return looks

    @property
    def text(self) -> str:
        """The figure in words, as alternative text."""
        panels = self.frame[["row", "panel"]].drop_duplicates().to_numpy()
        parts: dict[str, Any] = {
            "y": self.frame["y_axis"].str.replace("\n", " "),
            "x": [self.x.label],
            "panels": [", ".join(filter(None, panel)) for panel in panels],
            "lines": [label for label in self.labels if (self.frame["label"] == label).any()],
        }
        listed = {name: "; ".join(dict.fromkeys(filter(None, values))) for name, values in parts.items()}
        return ". ".join([self.title, *(f"{name}: {values}" for name, values in listed.items() if values)])


def _free(first: int, taken: set[int]) -> int:
    """The first place from here on of a new colour, or, where there is none, of a new colour and marker."""
    colours = {place % len(PALETTE) for place in taken}
    places = range(first, first + len(PALETTE) * len(MARKERS))
    new = (place for place in places if place % len(PALETTE) not in colours)
    return next(new, next((place for place in places if place not in taken), first))


def is_text(values: pd.Series) -> pd.Series[bool]:
    """Which values are text."""
    return values.map(lambda value: isinstance(value, str))


@dataclass(frozen=True)
class NoParams:
    """Of a figure without parameters."""


class Figure:
    """A figure of an experiment's results: a query. It uses no random number and writes no file.

    name: its name in experiments and in file names
    evaluations: those whose results it plots (fedshift.evaluations): the experiment must request each;
        fedshift.analysis.evaluated.results_of reads them
    Params: a frozen dataclass of its parameters, with defaults; `self.params` in an object
    """

    name: ClassVar[str] = ""
    evaluations: ClassVar[tuple[str, ...]] = ()

    Params: ClassVar[type] = NoParams

    def __init__(self, params: Any) -> None:
        self.params = params

    def check(self, experiment: Experiment, axes: Axes, where: str) -> None:
        """Raise FedshiftError at `where` for a parameter that the experiment cannot serve: here those of the
        types Metric, Row, Rows, Trained, TrainedRows, AxisName and AxisValue.

        Called when the experiment is planned, before anything is trained.
        """
        for name, hint in typing.get_type_hints(self.Params, include_extras=True).items():
            value = getattr(self.params, name)
            for check in _checks(hint):
                for text in filter(None, [value] if isinstance(value, str) else value or ()):
                    check(text, f"{where}.{name}", experiment, axes)

    def plot(self, workspace: Workspace, collected: Collected) -> Plot:
        """What it shows of the collected results. workspace: for published numbers.

        Raises FedshiftError where there is nothing to plot.
        """
        raise NotImplementedError


def _checks(hint: Any) -> list[Callable[..., None]]:
    """Those of a type, and of the elements of a tuple."""
    parts = (hint, *typing.get_args(hint))
    return [one for part in parts for one in getattr(part, "__metadata__", ()) if callable(one)]


def plots(workspace: Workspace, collected: Collected) -> tuple[dict[str, Plot], dict[str, FedshiftError]]:
    """The figures that an experiment lists, by the name of their files; and why others cannot be plotted from
    these results.
    """
    possible, impossible = {}, {}
    for name, figure in figures(collected.experiment).items():
        try:
            possible[name] = figure.plot(workspace, collected)
        except FedshiftError as error:
            impossible[name] = error
    return possible, impossible


def table(plot: Plot) -> pd.DataFrame:
    """Every plotted value, a row each, with COLUMNS; x_axis, y_axis: what is measured, with units."""
    frame = plot.frame.assign(x_axis=plot.x.label.replace("\n", " "))[COLUMNS]
    frame["y_axis"] = frame["y_axis"].str.replace("\n", " ")
    if plot.x.ticks is not None:  # values as the axis has them, however small
        frame["x"] = frame["x"].map("{:g}".format, na_action="ignore")
    return frame
