"""Figure: the base class of figures, the plot that it returns, and queries that several figures share.

The queries are means over seeds, headings, notes and names of axes.
"""

from __future__ import annotations

import fnmatch
import hashlib
import itertools
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedshift.analysis.clients import DOMAINS, of_clients
from fedshift.analysis.collected import Collected
from fedshift.analysis.page import heading, in_percent
from fedshift.analysis.published import AVERAGE, differences, find
from fedshift.common.errors import FedshiftError, unknown
from fedshift.experiments.axes import NONE
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
METHODS = [  # in the order of their looks: those that are plotted together come first, a new one last
    "fedavg", "fdse", "fedrd", "hfedf", "stablefdg", "fedprox", "scaffold", "fedbn",
    "fedsr", "ditto", "mixstyle", "feddg", "ccst", "dsu", "fedgma", "pfedhn",
    "fedheal", "feddg_ga", "fediir", "feddyn", "moon", "lgfedavg", "partialfed", "fedfa",
]  # fmt: skip
BOUNDS = {"local": ("#57606a", "s"), "central": ("#8c959f", "D")}  # lower and upper bound: grey


def _among(
    kind: str, names: Callable[[Experiment, Axes], Iterable[str]], pattern: bool = False
) -> Callable[..., None]:
    """A check that a text is one of these names of an experiment, or a pattern that matches some of them."""

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
    """The look of a label. Its place determines the hatch, and the positions of markers on a line."""

    colour: str  # "#rrggbb"
    marker: str  # matplotlib's
    place: int


@dataclass(frozen=True)
class Axis:
    """An axis of a plot. Values that are text are names, placed side by side in the order of `names`.

    `label`: the quantity and its unit.
    `scale`: linear or log.
    `names`: all names in order; by default those of the panel, in order of appearance.
    `ticks`: the numbers to mark, if they are few.
    `limits`: first and last number; values beyond are cut there, with an arrow.
    `whole`: ticks at whole numbers only.
    `from_zero`: the axis begins at 0.
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
    """A figure as a table of the values that it plots, with its axes.

    `title`: the figure's kind ("Learning curves").
    `frame`: one row per plotted value, in the order of plotting; the columns are listed below.
    `x`, `y`: the axes; `y` may be several.
    `labels`: all labels in the order of the legend; by default as in `order`, or in order of appearance.
    `note`: explains bands and marks.
    `size`: width and height of a panel, in inches.
    `colours`: "#rrggbb" of labels that do not use the fixed colours.
    `rules`: axis -> values at which a thin line crosses every panel.
    `texts`: (row, label of the y axis, panel) -> a few words in the lower right corner.
    `pictures`: (row, label of the y axis, panel) -> pixels [h, w, 3] uint8 in place of axes. The frame has
        the corresponding numbers.
    `polar`: panels are radars: names of x are directions, y is the distance from the middle.
    `heat`: panels are heat maps: one line per label, one column per name of x, coloured by y, with 0 in
        white.
    `order`: column -> its values in order. `frame` is sorted by these columns, by the first one first.

    Columns of `frame`:

    `label`: what the value belongs to; it determines colour, marker and the entry in the legend.
    `x`, `y`: numbers or names; x of a level is not read.
    `mark`: the kind of value: "mean" (default), "seed 0", "published".
    `style`: line (with some markers), marked (a line with a marker at each value), thin (a faint line), level
        (dashed, across the panel), bar (from 0). Or a marker at each value: dot (default), ring, square, open
        (a square), diamond.
    `low`, `high`: both ends of the interval around the value, along x if y has names.
    `panel`, `row`: title of the panel and heading of the row of panels, "" for a single one.
    `y_axis`: the label of its axis, where `y` has several. All panels of a row have the same axis.
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
    heat: bool = False
    order: Mapping[str, Sequence[Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        frame = self.frame.copy()
        for name, value in {**DEFAULTS, "y_axis": self.axes[0].label}.items():
            frame[name] = frame[name].fillna(value) if name in frame else value
        frame = in_order(frame, **self.order).reset_index(drop=True)
        numbers = [name for name in ("x", "y", "low", "high") if not is_text(frame[name]).any()]
        object.__setattr__(self, "frame", frame.astype(dict.fromkeys(numbers, float)))
        labels = self.labels or self.order.get("label") or self.frame["label"].unique()
        object.__setattr__(self, "labels", [*labels])

    @property
    def axes(self) -> list[Axis]:
        """The y axes."""
        return [self.y] if isinstance(self.y, Axis) else [*self.y]

    @property
    def looks(self) -> dict[str, Look]:
        """The look of each label. Methods and bounds have the same look in all figures.

        A variant takes the look of its method ("fedavg-uniform"), any other label one derived from its name.
        If that is taken, it is the next one whose colour is free.
        """
        own = [label for label in self.labels if label not in self.colours and label not in BOUNDS]
        places = {label: METHODS.index(label) for label in own if label in METHODS}
        looks = {}
        for label in self.labels:
            method, number = label.partition("-")[0], hashlib.sha256(label.encode()).digest()[0]
            place = METHODS.index(method) if method in METHODS else number % len(PALETTE)
            if label in own:
                place = places.setdefault(label, _free(place, {*places.values()}))
            colour, marker = PALETTE[place % len(PALETTE)], MARKERS[place % len(MARKERS)]
            colour, marker = BOUNDS.get(label, (self.colours.get(label, colour), marker))
            looks[label] = Look(colour, marker, place)
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
    """The first place from `first` on with a free colour, otherwise with a free colour and marker."""
    colours = {place % len(PALETTE) for place in taken}
    places = range(first, first + len(PALETTE) * len(MARKERS))
    new = (place for place in places if place % len(PALETTE) not in colours)
    return next(new, next((place for place in places if place not in taken), first))


def is_text(values: pd.Series) -> pd.Series[bool]:
    """Which values are text."""
    return values.map(lambda value: isinstance(value, str))


@dataclass(frozen=True)
class NoParams:
    """The parameters of a figure without any."""


class Figure:
    """A figure of an experiment's results: a query. It uses no random numbers and writes no files.

    `name`: its name in experiments and in file names.
    `evaluations`: those whose results it plots (fedshift.evaluations). The experiment must request each of
        them; fedshift.analysis.evaluated.results_of reads them.
    `Params`: a frozen dataclass of its parameters, with defaults; `self.params` in an instance.
    """

    name: ClassVar[str] = ""
    evaluations: ClassVar[tuple[str, ...]] = ()

    Params: ClassVar[type] = NoParams

    def __init__(self, params: Any) -> None:
        self.params = params

    def check(self, experiment: Experiment, axes: Axes, where: str) -> None:
        """Check the parameters against an experiment, when it is planned and before anything is trained.

        This base method checks those of the types Metric, Row, Rows, Trained, TrainedRows, AxisName and
        AxisValue.

        Raises FedshiftError at `where` for a parameter that the experiment cannot serve.
        """
        for name, hint in typing.get_type_hints(self.Params, include_extras=True).items():
            value = getattr(self.params, name)
            for kind in (hint, *typing.get_args(hint)):  # of a tuple those of its elements, too
                for check in filter(callable, getattr(kind, "__metadata__", ())):
                    for text in filter(None, [value] if isinstance(value, str) else value or ()):
                        check(text, f"{where}.{name}", experiment, axes)

    def plot(self, workspace: Workspace, collected: Collected) -> Plot:
        """The plot of the collected results.

        `workspace`: for published numbers.

        Raises FedshiftError where there is nothing to plot.
        """
        raise NotImplementedError


def plots(workspace: Workspace, collected: Collected) -> tuple[dict[str, Plot], dict[str, FedshiftError]]:
    """The figures that an experiment lists, by the name of their files; and why others cannot be plotted."""
    possible, impossible = {}, {}
    for name, figure in figures(collected.experiment).items():
        try:
            possible[name] = figure.plot(workspace, collected)
        except FedshiftError as error:
            impossible[name] = error
    return possible, impossible


def table(plot: Plot) -> pd.DataFrame:
    """Every plotted value, one row each, with COLUMNS; `x_axis` and `y_axis` are quantities with units."""
    frame = plot.frame.assign(x_axis=plot.x.label.replace("\n", " "))[COLUMNS]
    frame["y_axis"] = frame["y_axis"].str.replace("\n", " ")
    if plot.x.ticks is not None:  # values as the axis has them, however small
        frame["x"] = frame["x"].map("{:g}".format, na_action="ignore")
    return frame


ENOUGH = 3  # seeds from which a standard deviation is plotted
GREY = "#8c959f"
LABELS = {
    "id": "in-distribution\naccuracy (%)", "ood": "out-of-distribution\naccuracy (%)",
    "all": "accuracy ALL (%)\nclients by size", "avg": "accuracy AVG (%)\nmean of clients",
}  # fmt: skip
AXES = {"target": "held-out domain", "data.dataset": "data set"}  # in words
SETTINGS = {"local.lr": "learning rate", "local.batch": "batch size", "local.epochs": "local epochs"}
SETTING = "setting."  # before a dotted key
NAMED = 6  # maximum of values of an axis to name; more are counted


def nothing_finished(collected: Collected, what: str) -> FedshiftError:
    """The error raised when there is nothing to plot until more runs are finished."""
    return FedshiftError(collected.path, what, "Train the experiment, then collect it again.")


def over_seeds(collected: Collected, frame: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Means of y by the columns `by`, over seeds; `low` and `high` are one standard deviation away.

    A seed's value is the mean of its rows; a seed with a missing one is left out. `low` and `high` are NaN
    with fewer than ENOUGH seeds.

    Returns `by`, y, low, high, and the `seeds`, the `least` and the `most` of each mean.
    """
    groups = _seeds(frame, by).dropna(subset="y").groupby(by, sort=False, dropna=False)["y"]
    found = groups.agg(y="mean", seeds="count", least="min", most="max")
    std = groups.std(ddof=collected.protocol.ddof).where(found["seeds"] >= ENOUGH)
    return found.assign(low=found["y"] - std, high=found["y"] + std).reset_index()


def _seeds(frame: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    return frame.groupby([*by, "seed"], sort=False)["y"].mean(skipna=False).reset_index()


def marks(collected: Collected, frame: pd.DataFrame, by: list[str], style: str) -> pd.DataFrame:
    """The plotted values of several seeds: means in `style`, and single seeds where there are two.

    With three or more seeds, the mean has one standard deviation on each side; with two, the single seeds are
    added. Means come last, except bars, which would hide the seeds and come first.

    `frame`, `by`: as for `over_seeds`; the frame is sorted by x if its values are names.
    """
    if pd.api.types.is_numeric_dtype(frame["x"]):
        frame = frame.sort_values("x", kind="stable")
    means = over_seeds(collected, frame, by).assign(mark="mean", style=style)
    line = [name for name in by if name != "x"]
    two = means.loc[means.groupby(line, dropna=False)["seeds"].transform("max") == 2, line].drop_duplicates()
    seeds = _seeds(frame, by).merge(two, on=line).dropna(subset="y").sort_values("seed", kind="stable")
    seeds["mark"] = "seed " + seeds.pop("seed").astype(str)
    seeds["style"] = "ring" if style in ("dot", "bar") else "thin"
    return pd.concat([means, seeds] if style == "bar" else [seeds, means], ignore_index=True)


def in_order(frame: pd.DataFrame, **orders: Sequence[Any]) -> pd.DataFrame:
    """Sort by columns whose values have an order, the first column first; other rows stay in order."""
    places = {name: {value: place for place, value in enumerate(order)} for name, order in orders.items()}
    return frame.sort_values(
        [*orders], key=lambda column: column.map(places[str(column.name)]), kind="stable"
    )


def with_seed(frame: pd.DataFrame) -> pd.DataFrame:
    """Add a column `seed` of 0 if the experiment has no axis of seeds."""
    return frame if "seed" in frame else frame.assign(seed=0)


def placed(
    collected: Collected, frame: pd.DataFrame, methods: bool = False
) -> tuple[pd.DataFrame, dict[str, list[Any]]]:
    """Add `seed`, and as `row` and `panel` the places in words; also returns all possible ones in order.

    `row` is the place on the axes other than target and seed ("pacs, d = 2"), `panel` the held-out domain, ""
    without an axis of them. Without an axis of seeds, the seed is 0.

    `methods`: the row begins with the method, and has only axes on which runs differ.
    """
    axes = [key for key in collected.keys if key not in ("method", "target", "seed")]
    if methods:
        axes = ["method", *(axis for axis in axes if len(collected.order[axis]) > 1)]
    orders = {"method": collected.experiment.rows, **collected.order}

    def words(place: Iterable[Any]) -> str:
        return ", ".join(filter(None, map(word, axes, place)))

    every = itertools.product(*([*orders[axis], None] for axis in axes))
    titles = {value: word("target", value) for value in orders.get("target", ())}
    rows = [words(place) for place in frame[axes].astype(object).to_numpy()]
    panels = frame["target"].map(titles).fillna("") if titles else ""
    order = {"row": [*dict.fromkeys(map(words, every))], "panel": [*titles.values()]}
    return with_seed(frame).assign(row=rows, panel=panels), order


def word(axis: str, value: Any) -> str:
    """A value on an axis in words, for headings and titles of panels; "" for none."""
    if pd.isna(value):
        return ""
    if axis == "target":
        return {NONE: "nothing held out", AVERAGE: "average"}.get(value, f"held out: {value}")
    return str(value) if axis in ("method", "data.dataset") else f"{axis} = {value}"


def published(workspace: Workspace, collected: Collected, lines: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """The columns `by` and the published value, y, of each group of `lines`, from the same experiment.

    A group varies along no axis except the seed, and held-out domains, over which its value is the mean.

    `lines`: columns `by`, method (a row of the experiment), metric and axes; the target may be AVERAGE.
    """
    axes = [key for key in ("metric", *collected.keys) if key != "seed"]
    groups = lines[[*dict.fromkeys([*by, *axes])]].drop_duplicates().groupby(by, sort=False, dropna=False)
    several = groups[axes].nunique(dropna=False) > 1
    alike = ~several.drop(columns="target", errors="ignore").any(axis=1)
    points = groups[axes].first().astype(object).mask(several, AVERAGE)[alike]
    values = []
    for point in points.to_dict("records"):
        at = {str(axis): value for axis, value in point.items() if not pd.isna(value)}
        method, metric = at.pop("method"), at.pop("metric")
        names = ("id", "avg") if metric == "id" else (metric,)  # papers print either name of one quantity
        numbers = (find(workspace, collected.experiment, method, at, name) for name in names)
        if number := next(filter(None, numbers), None):
            runs = collected.runs[collected.runs["method"] == method]
            for axis, wanted in at.items():
                runs = runs[runs[axis] != NONE if wanted == AVERAGE else runs[axis] == wanted]
            number = None if differences(workspace, collected.protocol, number, runs) else number
        values.append(number.value if number else np.nan)
    return points.index.to_frame(index=False).assign(y=values).dropna(subset="y")


def rows_of(frame: pd.DataFrame, collected: Collected) -> list[str]:
    """The rows of the experiment that have a result, in the order of its file."""
    return [row for row in collected.experiment.rows if (frame["method"] == row).any()]


def of_methods(
    workspace: Workspace, collected: Collected, *names: str
) -> tuple[pd.DataFrame, dict[str, list[Any]]]:
    """Values that methods recorded of each client by round, under one of `names`, as y.

    The other columns are seed, row, panel and, as label, the domains of the client. Also returns the orders
    of row, panel and label. See fedshift.analysis.clients.of_clients.

    Raises FedshiftError if no finished run recorded any.
    """
    frame = of_clients(workspace, collected, *names)
    if frame.empty:
        what = f"no finished run here recorded '{' or '.join(names)}'"
        fix = "Plot a method that does (`fedshift list methods`), trained here."
        raise FedshiftError(collected.path, what, fix)
    frame, order = placed(collected, frame, methods=True)
    frame = frame.rename(columns={DOMAINS: "label", "value": "y"})
    labels = [*frame.sort_values("client", kind="stable")["label"].unique()]
    return frame, {**order, "label": labels}


def at_the_end(frame: pd.DataFrame) -> pd.DataFrame:
    """The last round of each row, panel and seed of the result of `of_methods`."""
    return frame[frame["round"] == frame.groupby(["row", "panel", "seed"])["round"].transform("max")]


@dataclass(frozen=True)
class At:
    """`at`: values on axes; one run of each row is shown at these, and at the first value of other axes."""

    at: tuple[AxisValue, ...] = ()


def shown(frame: pd.DataFrame, collected: Collected, at: Sequence[str]) -> tuple[pd.DataFrame, str]:
    """The rows of `frame` at one value of each axis, and these values in words.

    On each axis it is the value in `at`, otherwise the first one that has rows.
    """
    words = []
    for axis, values in collected.order.items():
        present = [value for value in values if (frame[axis] == value).any()]
        if not present:
            continue
        chosen = next((value for value in present if str(value) in at), present[0])
        frame = frame[frame[axis] == chosen]
        if len(values) > 1 or axis == "target":
            words.append({"target": "held out: ", "seed": "seed "}.get(axis, f"{axis} ") + str(chosen))
    return frame, ", ".join(words)


def by_metric(
    collected: Collected, frame: pd.DataFrame, metrics: Sequence[str]
) -> tuple[pd.DataFrame, list[str]]:
    """A row for each value of a metric, with the columns metric, y and y_axis, and all labels of y axes.

    Raises FedshiftError where no metric has a value.
    """
    present = [metric for metric in metrics if frame[metric].notna().any()]
    if not present:
        raise nothing_finished(collected, f"no finished run has a value of {', '.join(metrics)}")
    lines = frame.melt([name for name in frame if name not in metrics], present, "metric", "y")
    return lines.assign(y_axis=lines["metric"].map(axis_label)), [*map(axis_label, present)]


def axis_label(quantity: str) -> str:
    """The label of a quantity's axis, with its unit."""
    unit = "%" if in_percent(quantity) else "nats" if quantity.startswith("loss.") else ""
    return LABELS.get(quantity) or heading(quantity) + (f" ({unit})" if unit else "")


def in_words(quantity: str) -> str:
    """A quantity without its unit, on one line."""
    return axis_label(quantity).replace("\n", " ").replace(" (%)", "")


def axis_name(text: str) -> str:
    """The name, in words, of an axis of an experiment, or of `setting.<dotted key>`."""
    key = text.removeprefix(SETTING)
    return AXES.get(key) or SETTINGS.get(key) or (key.rpartition(".")[2] if key != text else text)


def several(axis: str, values: Sequence[Any]) -> str:
    """Values of an axis, in words: "held-out domains photo, sketch", "8 data sets", "d 1, 2, 3"."""
    word = AXES.get(axis, axis) + "s" * (axis in AXES and len(values) > 1)
    return f"{len(values)} {word}" if len(values) > NAMED else f"{word} {', '.join(map(str, values))}"


def held_out(collected: Collected, frame: pd.DataFrame) -> str:
    """The domains that the runs of `frame` hold out, in words, in the order of the file; "" for none."""
    known = collected.order["target"] if "target" in frame else []
    names = [name for name in known if name != NONE and (frame["target"] == name).any()]
    words = ", ".join(map(str, names)) if len(names) <= NAMED else f"{len(names)} domains"
    return f"held out: {words}" if names else ""


def notes(*parts: object) -> str:
    """Join the parts of a note that are true: texts, or `condition and text`."""
    return "; ".join(part for part in parts if isinstance(part, str) and part)


def note(frame: pd.DataFrame, averaged: Mapping[str, Sequence[Any]] | None = None) -> str:
    """What surrounds the means of a plot's frame (bands, bars, rings), and what the means are over.

    `averaged`: the axes that are not plotted, with their values.
    """
    averaged = averaged or {}
    over = " and ".join(several(*axis) for axis in averaged.items() if len(axis[1]) > 1)
    alone = [name for name in averaged.get("target", ()) if name != NONE]
    around = {*frame.loc[frame["low"].notna(), "style"]}
    seeds = {*frame.loc[frame["mark"].str.startswith("seed "), "style"]}
    std = "± one standard deviation over seeds"
    return notes(
        around & {"line", "marked"} and f"band: {std}",
        "dot" in around and "bar" not in around and f"bar: {std}",
        "bar" in around and f"line: {std}",
        "thin" in seeds and "thin lines: single seeds",
        "ring" in seeds and "rings: single seeds",
        over and f"mean over {over}",
        len(alone) == 1 and f"held out: {alone[0]}",
        (frame["style"] == "diamond").any() and "diamond: published",
        (frame["style"] == "level").any() and "dashed: published",
    )
