"""Queries that several figures share: means over seeds, headings, notes, names of axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from fedshift.analysis.clients import DOMAINS, of_clients
from fedshift.analysis.collected import Collected
from fedshift.analysis.comparable import AVERAGE, printed
from fedshift.analysis.figures.base import AxisValue, Figure
from fedshift.analysis.page import heading, in_percent
from fedshift.common.errors import FedshiftError
from fedshift.experiments.axes import NONE
from fedshift.storage.workspace import Workspace

ENOUGH = 3  # seeds from which a standard deviation is plotted
GREY = "#8c959f"
TITLES = {"id": "in-distribution", "ood": "out-of-distribution"}
OVER_CLIENTS = {"all": "clients by size", "avg": "mean of clients"}
AXES = {"target": "held-out domain", "data.dataset": "data set"}  # in words
SETTINGS = {"local.lr": "learning rate", "local.batch": "batch size", "local.epochs": "local epochs"}
SETTING = "setting."  # before a dotted key
WORDS = "place in words"  # no axis has a blank in its name
NAMED = 6  # values of an axis that are named; more are counted


def nothing_finished(collected: Collected, what: str) -> FedshiftError:
    """The error that there is nothing to plot before more runs are finished."""
    return FedshiftError(collected.path, what, "Train the experiment, then collect it again.")


def over_seeds(frame: pd.DataFrame, ddof: int, along: str = "x") -> pd.DataFrame:
    """Means of y over seeds. frame: columns seed, y (numbers) and others, which tell the values apart: x,
    label, panel.

    Returns those others and y; `kind`, of all values that differ in `along` alone: "std" where one of them
    has three seeds, "range" where one has two, else "alone"; and low and high: one standard deviation (ddof:
    the protocol's) to each side, or the lower and the higher of two seeds; NaN where a value has fewer seeds.
    """
    by = [name for name in frame if name not in ("seed", "y")]
    groups = frame.dropna(subset="y").groupby(by, sort=False, dropna=False)["y"]
    found = groups.agg(y="mean", seeds="count", low="min", high="max").assign(std=groups.std(ddof=ddof))
    found = found.reset_index()
    line = [name for name in by if name != along]
    most = found.groupby(line, dropna=False)["seeds"].transform("max")
    found["kind"] = np.select([most >= ENOUGH, most == 2], ["std", "range"], "alone")
    std = found["std"].where((found["kind"] == "std") & (found["seeds"] >= ENOUGH))
    two = (found["kind"] == "range") & (found["seeds"] == 2)
    found["low"] = found["low"].where(two, found["y"] - std)
    found["high"] = found["high"].where(two, found["y"] + std)
    return found[[*by, "y", "low", "high", "kind"]]


def marks(frame: pd.DataFrame, ddof: int, style: str) -> pd.DataFrame:
    """What is plotted of values of several seeds: their means in `style`, with one standard deviation around
    them from three seeds on; of two the single seeds, too; of one nothing else.

    frame: as of `over_seeds`, with label and x, in the order of x where its values are names. Means come
    last, but of bars, which would hide the seeds, first.
    """
    if pd.api.types.is_numeric_dtype(frame["x"]):
        frame = frame.sort_values("x", kind="stable")
    means = over_seeds(frame, ddof).assign(mark="mean", style=style)
    line = [name for name in frame if name not in ("x", "y", "seed")]
    two = means.loc[means["kind"] == "range", line].drop_duplicates()
    seeds = frame.merge(two, on=line).dropna(subset="y").sort_values("seed", kind="stable")
    seeds["mark"] = "seed " + seeds.pop("seed").astype(str)
    seeds["style"] = "ring" if style in ("dot", "bar") else "thin"
    ends = means[["low", "high"]].where(means.pop("kind") == "std")
    parts = [seeds, means.assign(low=ends["low"], high=ends["high"])]
    return pd.concat(parts[::-1] if style == "bar" else parts, ignore_index=True)


def in_order(frame: pd.DataFrame, **orders: Sequence[Any]) -> pd.DataFrame:
    """Sorted by columns whose values have an order, the first column first; otherwise as it was."""
    places = {column: {value: place for place, value in enumerate(order)} for column, order in orders.items()}
    return frame.sort_values([*orders], key=lambda own: own.map(places[str(own.name)]), kind="stable")


def with_seed(frame: pd.DataFrame) -> pd.DataFrame:
    """The same with a column `seed`, 0 where the experiment has no axis of seeds."""
    return frame if "seed" in frame else frame.assign(seed=0)


def headings(collected: Collected, frame: pd.DataFrame, methods: bool = False) -> tuple[pd.Series, list[str]]:
    """The place of each row of `frame` on the axes beyond target and seed, in words ("pacs, d = 2"), and all
    of these in the order of the file. methods: the method in front, and only axes on which runs differ.
    """
    axes = [key for key in collected.keys if key not in ("method", "target", "seed")]
    if methods:
        axes = ["method", *(axis for axis in axes if len(collected.order[axis]) > 1)]
    orders = {"method": collected.experiment.rows, **collected.order}
    words = [[word(axis, value) for value in frame[axis]] for axis in axes]
    texts = [", ".join(filter(None, place)) for place in zip(*words, strict=True)] or [""] * len(frame)
    places = frame[axes].assign(**{WORDS: texts})
    in_file = in_order(places, **{axis: orders[axis] for axis in axes}) if axes else places
    return places[WORDS].astype(object), [*in_file[WORDS].unique()] or [""]


def panels(collected: Collected, frame: pd.DataFrame) -> tuple[pd.Series | str, list[str]]:
    """The title of the panel of each row of `frame`, by its held-out domain, and all titles in order."""
    names = collected.order.get("target", [])
    return frame["target"].map(panel_of) if names else "", [*map(panel_of, names)]


def word(axis: str, value: Any) -> str:
    """A value on an axis in words, as headings and titles of panels have it; "" for none."""
    if axis == "target":
        return panel_of(value)
    alone = axis in ("method", "data.dataset")
    return "" if pd.isna(value) else str(value) if alone else f"{axis} = {value}"


def panel_of(target: Any) -> str:
    """The title of the panel of a held-out domain, or of their AVERAGE."""
    titles = {NONE: "nothing held out", AVERAGE: AVERAGE}
    return "" if pd.isna(target) else titles.get(target, f"held out: {target}")


def published(workspace: Workspace, collected: Collected, points: pd.DataFrame) -> pd.Series[float]:
    """The published value of each row of `points`, NaN where there is none that is of the same experiment.

    points: columns method (a row of the experiment), metric and axes, where the target may be AVERAGE.
    """
    values = []
    for point in points.to_dict("records"):
        method, metric = str(point.pop("method")), point.pop("metric")
        axes = {str(axis): value for axis, value in point.items() if not pd.isna(value)}
        values.append(printed(workspace, collected, method, axes, metric))
    return pd.Series(values, points.index, dtype=float)


def rows_of(frame: pd.DataFrame, collected: Collected) -> list[str]:
    """The rows of the experiment that have a result, in the order of its file."""
    return [row for row in collected.experiment.rows if (frame["method"] == row).any()]


def of_methods(
    workspace: Workspace, collected: Collected, *names: str
) -> tuple[pd.DataFrame, dict[str, list[Any]]]:
    """What methods recorded of each client by round under one of `names`
    (fedshift.analysis.clients.of_clients) as y, with seed, row, panel and, as label, the domains
    that a client holds; and the orders of row, panel and label.

    Raises FedshiftError where no finished run did.
    """
    parts = [of_clients(workspace, collected, name) for name in names]
    frame = pd.concat([part for part in parts if len(part)] or parts[:1], ignore_index=True)
    if frame.empty:
        what = f"no finished run here recorded '{' or '.join(names)}'"
        fix = "Plot a method that does (`fedshift list methods`), trained here."
        raise FedshiftError(collected.path, what, fix)
    frame = with_seed(frame).rename(columns={DOMAINS: "label", "value": "y"})
    frame["row"], rows = headings(collected, frame, methods=True)
    frame["panel"], titles = panels(collected, frame)
    labels = [*frame.sort_values("client", kind="stable")["label"].unique()]
    return frame, {"row": rows, "panel": titles, "label": labels}


def at_the_end(frame: pd.DataFrame) -> pd.DataFrame:
    """Of what `of_methods` gave, the last round of each row, panel and seed."""
    return frame[frame["round"] == frame.groupby(["row", "panel", "seed"])["round"].transform("max")]


@dataclass(frozen=True)
class At:
    """at: values on axes, one run of each row at these; the first of the file on others."""

    at: tuple[AxisValue, ...] = ()


class OfRuns(Figure):
    """A figure whose parameter `at` names values on axes: of each row it shows one run at these."""

    Params: ClassVar[type] = At

    def shown(self, frame: pd.DataFrame, collected: Collected) -> tuple[pd.DataFrame, str]:
        """The rows of `frame` at one value of each axis: that which `at` names, else the first that has rows;
        and which these are, in words.
        """
        words = []
        for axis, values in collected.order.items():
            present = [value for value in values if (frame[axis] == value).any()]
            if not present:
                continue
            chosen = next((value for value in present if str(value) in self.params.at), present[0])
            frame = frame[frame[axis] == chosen]
            if len(values) > 1 or axis == "target":
                words.append({"target": "held out: ", "seed": "seed "}.get(axis, f"{axis} ") + str(chosen))
        return frame, ", ".join(words)


def axis_label(quantity: str) -> str:
    """The label of a quantity's axis, with its unit."""
    if quantity in TITLES:
        return f"{TITLES[quantity]}\naccuracy (%)"
    if quantity in OVER_CLIENTS:
        return f"accuracy {quantity.upper()} (%)\n{OVER_CLIENTS[quantity]}"
    unit = "%" if in_percent(quantity) else "nats" if quantity.startswith("loss.") else ""
    return heading(quantity) + (f" ({unit})" if unit else "")


def in_words(quantity: str) -> str:
    """A quantity without its unit, on one line."""
    return axis_label(quantity).replace("\n", " ").replace(" (%)", "")


def axis_name(text: str) -> str:
    """What is along an axis of an experiment, or along `setting.<dotted key>`, in words."""
    key = text.removeprefix(SETTING)
    return AXES.get(key) or SETTINGS.get(key) or (key.rpartition(".")[2] if key != text else text)


def several(axis: str, values: Sequence[Any]) -> str:
    """Values of an axis, in words: "held-out domains photo, sketch", "8 data sets", "d 1, 2, 3"."""
    word = AXES.get(axis, axis) + "s" * (axis in AXES and len(values) > 1)
    return f"{len(values)} {word}" if len(values) > NAMED else f"{word} {', '.join(map(str, values))}"


def held_out(collected: Collected, frame: pd.DataFrame) -> str:
    """What the runs of `frame` hold out, in words, in the order of the file; "" for nothing."""
    known = collected.order["target"] if "target" in frame else []
    names = [name for name in known if name != NONE and (frame["target"] == name).any()]
    words = ", ".join(map(str, names)) if len(names) <= NAMED else f"{len(names)} domains"
    return f"held out: {words}" if names else ""


def notes(*parts: object) -> str:
    """The parts of a note that are there: texts, or `condition and text`."""
    return "; ".join(part for part in parts if isinstance(part, str) and part)


def note(frame: pd.DataFrame, averaged: Mapping[str, Sequence[Any]] | None = None) -> str:
    """What lies around the means of a plot's frame, and what these are over.

    averaged: the axes that are not plotted, with their values.
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
