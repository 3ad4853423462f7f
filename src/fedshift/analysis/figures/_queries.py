"""Queries that several figures share: means over seeds, headings, notes, names of axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from fedshift.analysis.clients import DOMAINS
from fedshift.analysis.collected import Collected
from fedshift.analysis.comparable import printed
from fedshift.analysis.figures.base import Figure
from fedshift.analysis.quantities import heading, in_percent
from fedshift.common.errors import FedshiftError, unknown
from fedshift.experiments.axes import NONE
from fedshift.experiments.schema import Experiment
from fedshift.storage.workspace import Workspace

ENOUGH = 3  # seeds from which a standard deviation is plotted
TITLES = {"id": "in-distribution", "ood": "out-of-distribution"}
OVER_CLIENTS = {"all": "clients by size", "avg": "mean of clients"}
AXES = {"target": "held-out domain", "data.dataset": "data set"}  # in words
SETTINGS = {"local.lr": "learning rate", "local.batch": "batch size", "local.epochs": "local epochs"}
SETTING = "setting."  # before a dotted key
NAMED = 6  # values of an axis that are named; more are counted


def over_seeds(frame: pd.DataFrame, ddof: int, along: str = "x") -> pd.DataFrame:
    """Means of y over seeds. frame: columns seed, y (numbers) and others, which tell the values apart: x,
    label, panel.

    Returns those others and y; `kind`, of all values that differ in `along` alone: "std" where one of them
    has three seeds, "range" where one has two, else "alone"; and low and high: one standard deviation (ddof:
    the protocol's) to each side, or the lower and the higher of two seeds; NaN where a value has fewer seeds.
    """
    by = [name for name in frame if name not in ("seed", "y")]
    groups = frame.dropna(subset="y").groupby(by, sort=False, dropna=False)["y"]
    found = groups.agg(["mean", "count", "min", "max"]).assign(std=groups.std(ddof=ddof)).reset_index()
    line = [name for name in by if name != along]
    most = found.groupby(line, dropna=False)["count"].transform("max")
    found["kind"] = np.select([most >= ENOUGH, most == 2], ["std", "range"], "alone")
    std = found["std"].where((found["kind"] == "std") & (found["count"] >= ENOUGH))
    two = (found["kind"] == "range") & (found["count"] == 2)
    low = (found["mean"] - std).where(~two, found["min"])
    high = (found["mean"] + std).where(~two, found["max"])
    return found[by].assign(y=found["mean"], low=low, high=high, kind=found["kind"])


def marks(frame: pd.DataFrame, ddof: int, style: str) -> pd.DataFrame:
    """What is plotted of values of several seeds: their means in `style`, with one standard deviation around
    them from three seeds on; of two the single seeds, too; of one nothing else.

    frame: as of `over_seeds`, with label and x, in the order of x where its values are names. Means come
    last, but of bars, which would hide the seeds, first.
    """
    if pd.api.types.is_numeric_dtype(frame["x"]):
        frame = frame.sort_values("x", kind="stable")
    means = over_seeds(frame, ddof)
    line = [name for name in means if name not in ("x", "y", "low", "high", "kind")]
    two = means.loc[means["kind"] == "range", line].drop_duplicates()
    seeds = frame.merge(two, on=line).dropna(subset="y").sort_values("seed", kind="stable")
    seeds = seeds.assign(
        mark="seed " + seeds["seed"].astype(str), style="ring" if style in ("dot", "bar") else "thin"
    )
    std = means["kind"] == "std"
    ends = {end: means[end].where(std) for end in ("low", "high")}
    parts = [seeds.drop(columns="seed"), means.drop(columns="kind").assign(mark="mean", style=style, **ends)]
    return pd.concat(parts[::-1] if style == "bar" else parts, ignore_index=True)


def in_order(frame: pd.DataFrame, **orders: Sequence[Any]) -> pd.DataFrame:
    """Sorted by columns whose values have an order, the first column first; otherwise as it was."""
    places = [
        frame[column].map({value: i for i, value in enumerate(order)}) for column, order in orders.items()
    ]
    return frame.iloc[np.lexsort(places[::-1])] if len(frame) else frame


def with_seed(frame: pd.DataFrame) -> pd.DataFrame:
    """The same with a column `seed`, 0 where the experiment has no axis of seeds."""
    return frame if "seed" in frame else frame.assign(seed=0)


def headings(collected: Collected, frame: pd.DataFrame, methods: bool = False) -> tuple[pd.Series, list[str]]:
    """The place of each row of `frame` on the axes beyond target and seed, in words ("pacs, d = 2"), and all
    of these in the order of the file. methods: the method in front, and only axes on which runs differ.
    """
    further = [key for key in collected.keys if key not in ("method", "target", "seed")]
    if methods:
        further = ["method", *(axis for axis in further if len(collected.order[axis]) > 1)]
    if not further:
        return pd.Series("", frame.index, dtype=object), [""]
    orders = {"method": collected.experiment.rows, **collected.order}
    points = in_order(frame[further].drop_duplicates(), **{axis: orders[axis] for axis in further})
    return pd.Series(_words(frame[further]), frame.index, dtype=object), [*dict.fromkeys(_words(points))]


def _words(points: pd.DataFrame) -> list[str]:
    """Values on axes in words, of each row; an axis without a value is left out."""
    columns = [[word(str(axis), value) for value in points[axis]] for axis in points]
    return [", ".join(filter(None, words)) for words in zip(*columns, strict=True)]


def word(axis: str, value: Any) -> str:
    """A value on an axis in words, as headings and titles of panels have it; "" for none."""
    if axis == "target":
        return panel_of(value)
    alone = axis in ("method", "data.dataset")
    return "" if pd.isna(value) else str(value) if alone else f"{axis} = {value}"


def panel_of(target: Any) -> str:
    """The title of the panel of a held-out domain."""
    return "" if pd.isna(target) else "nothing held out" if target == NONE else f"held out: {target}"


def published(workspace: Workspace, collected: Collected, points: pd.DataFrame) -> pd.Series[float]:
    """The published value of each row of `points`, NaN where there is none that is of the same experiment.

    points: columns method (a row of the experiment), metric and axes, where the target may be AVERAGE.
    """
    axes = [str(axis) for axis in points if axis not in ("method", "metric")]
    values = [
        printed(
            workspace,
            collected,
            str(point["method"]),
            {axis: point[axis] for axis in axes if not pd.isna(point[axis])},
            point["metric"],
        )
        for point in points.to_dict("records")
    ]
    return pd.Series(values, points.index, dtype=float)


def rows_of(frame: pd.DataFrame, collected: Collected) -> list[str]:
    """The rows of the experiment that have a result, in the order of its file."""
    return [row for row in collected.experiment.rows if (frame["method"] == row).any()]


def holders(frame: pd.DataFrame) -> list[str]:
    """The clients of a frame by the domains that they hold, in the order of clients."""
    return [*frame.sort_values("client", kind="stable")[DOMAINS].unique()]


def at_the_end(frame: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Of what was recorded by round, the last round of each value of `by`."""
    return frame[frame["round"] == frame.groupby([*by], dropna=False)["round"].transform("max")]


class OfRuns(Figure):
    """A figure whose parameter `at` names values on axes: of each row it shows one run at these."""

    def check(self, experiment: Experiment, axes: Mapping[str, Sequence[Any]], where: str) -> None:
        """Raises FedshiftError at `where` for a name that is not a value of an axis."""
        known = [str(value) for values in axes.values() for value in values]
        for name in self.params.at:
            if name not in known:
                raise unknown(f"{where}.at", "value of an axis", name, known)

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
                word = {"target": "held out: {}", "seed": "seed {}"}.get(axis, f"{axis} {{}}")
                words.append(word.format(chosen))
        return frame, ", ".join(words)


def nothing_finished(collected: Collected, what: str) -> FedshiftError:
    """That there is nothing to plot before more runs are finished."""
    return FedshiftError(collected.path, what, "Train the experiment, then collect it again.")


def not_recorded(collected: Collected, name: str) -> FedshiftError:
    """That no finished run recorded what is to be plotted."""
    what = f"no finished run here recorded '{name}'"
    return FedshiftError(
        collected.path, what, "Plot a method that does (`fedshift list methods`), trained here."
    )


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


def note(frame: pd.DataFrame, averaged: Mapping[str, Sequence[Any]] | None = None) -> str:
    """What lies around the means of a plot's frame, and what these are over.

    averaged: the axes that are not plotted, with their values.
    """
    averaged = averaged or {}
    over = " and ".join(several(*axis) for axis in averaged.items() if len(axis[1]) > 1)
    alone = [name for name in averaged.get("target", ()) if name != NONE]
    around = {*frame.loc[frame["low"].notna(), "style"]}
    seeds = {*frame.loc[frame["mark"].str.startswith("seed "), "style"]}
    bars = bool(around & {"dot", "bar"})
    parts = {
        "band: ± one standard deviation over seeds": bool(around & {"line", "marked"}),
        "bar: ± one standard deviation over seeds": bars and "bar" not in around,
        "line: ± one standard deviation over seeds": "bar" in around,
        "thin lines: single seeds": "thin" in seeds,
        "rings: single seeds": "ring" in seeds,
        f"mean over {over}": bool(over),
        f"held out: {''.join(map(str, alone[:1]))}": len(alone) == 1,
        "diamond: published": (frame["style"] == "diamond").any(),
        "dashed: published": (frame["style"] == "level").any(),
    }
    return "; ".join(text for text, holds in parts.items() if holds)
