"""Marks: what figures draw of values over seeds, the same in all of them, and what axes call a quantity."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from fedshift.analysis.collection.collected import Collected
from fedshift.analysis.drawing.panels import Row, Series, Spread, Style
from fedshift.analysis.quantities.aggregation import heading, in_percent
from fedshift.analysis.quantities.seeds import Mean, over_seeds
from fedshift.experiments.axes import NONE

BESIDE = 0.75  # of the room between two names, for the marks of all labels side by side
SPACE = 0.9  # of its room, how wide a bar is
TITLES = {
    "id": "in-distribution",
    "ood": "out-of-distribution",
}
OVER_CLIENTS = {"all": "clients by size", "avg": "mean of clients"}
AXES = {"target": "held-out domain", "data.dataset": "data set"}  # in words
SETTINGS = {"local.lr": "learning rate", "local.batch": "batch size", "local.epochs": "local epochs"}
SETTING = "setting."  # before a dotted key
NAMED = 6  # values of an axis that are named; more are counted


def axis_label(quantity: str) -> str:
    """What the axis of a quantity says, with its unit."""
    if quantity in TITLES:
        return f"{TITLES[quantity]}\naccuracy (%)"
    if quantity in OVER_CLIENTS:
        return f"accuracy {quantity.upper()} (%)\n{OVER_CLIENTS[quantity]}"
    unit = "%" if in_percent(quantity) else "nats" if quantity.startswith("loss.") else ""
    return heading(quantity) + (f" ({unit})" if unit else "")


def in_words(quantity: str) -> str:
    """A quantity without its unit, on one line."""
    return axis_label(quantity).replace("\n", " ").replace(" (%)", "")


def with_seed(frame: pd.DataFrame) -> pd.DataFrame:
    """The same with a column `seed`, 0 where the experiment has no axis of seeds."""
    return frame if "seed" in frame else frame.assign(seed=0)


def axis_name(text: str) -> str:
    """What is along an axis of an experiment, or along `setting.<dotted key>`, in words."""
    key = text.removeprefix(SETTING)
    return AXES.get(key) or SETTINGS.get(key) or (key.rpartition(".")[2] if key != text else text)


def aside(index: int, labels: int) -> float:
    """How far beside a name the marks of the label at this index stand."""
    return BESIDE * ((index + 0.5) / labels - 0.5)


def around(
    label: str, seeds: pd.DataFrame, by: str, value: str, ddof: int, style: Style, shift: float = 0.0,
    width: float = 0.0,
) -> tuple[Mean | None, list[Series]]:  # fmt: skip
    """The mean over seeds of a label, and what may be drawn around it: from three seeds on one standard
    deviation, of two each seed, of one nothing.

    seeds: columns `seed`, `by` (the position on x) and `value`; ddof: of the standard deviation; shift: of
    all marks along x; style: of the means. Nothing where there is no value.
    """
    line = over_seeds(seeds, by, value, ddof)
    if line is None:
        return None, []
    drawn = []
    at_names = style in ("filled", "dot")
    spread = None
    if line.kind == "std":
        spread = Spread([*line.low], [*line.high], "bar" if at_names else "band")
    xs = [float(place) + shift for place in line.mean.index]
    mean = Series(label, "mean", xs, [*line.mean], style, spread, width)
    if line.kind == "range":
        single: Style = "ring" if at_names else "thin"
        drawn = [
            Series(label, f"seed {seed}", [*(part[by] + shift)], [*part[value]], single)
            for seed, part in seeds.dropna(subset=[value]).groupby("seed")
        ]
    return line, [mean, *drawn] if style == "filled" else [*drawn, mean]


def several(axis: str, values: Sequence[Any]) -> str:
    """Values of an axis, in words: "held-out domains photo, sketch", "8 data sets", "d 1, 2, 3"."""
    word = AXES.get(axis, axis) + "s" * (axis in AXES and len(values) > 1)
    return f"{len(values)} {word}" if len(values) > NAMED else f"{word} {', '.join(map(str, values))}"


def by_further_axes(collected: Collected, frame: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """The values of the axes beyond target and seed in the order of the file, as a title, each with its rows
    of `frame`, where it has some.
    """
    further = [key for key in collected.keys if key not in ("method", "target", "seed")]
    for values in itertools.product(*(collected.order[axis] for axis in further)):
        part, words = frame, []
        for axis, value in zip(further, values, strict=True):
            part = part[part[axis] == value]
            words.append(str(value) if axis == "data.dataset" else f"{axis} = {value}")
        if len(part):
            yield ", ".join(words), part


def held_out(collected: Collected, frame: pd.DataFrame) -> str:
    """What the runs of `frame` hold out, in words, in the order of the file; "" for nothing."""
    known = collected.order["target"] if "target" in frame else []
    names = [name for name in known if name != NONE and (frame["target"] == name).any()]
    words = ", ".join(map(str, names)) if len(names) <= NAMED else f"{len(names)} domains"
    return f"held out: {words}" if names else ""


def note(rows: Sequence[Row], averaged: Mapping[str, Sequence[Any]] | None = None) -> str:
    """What lies around the means, and what these are over.

    averaged: the axes that are not drawn, with their values.
    """
    averaged = averaged or {}
    over = " and ".join(several(*axis) for axis in averaged.items() if len(axis[1]) > 1)
    alone = [name for name in averaged.get("target", ()) if name != NONE]
    series: list[Series] = [*_all(rows)]
    kinds = {line.spread.kind for line in series if line.spread}
    styles = {line.style for line in series if line.mark.startswith("seed ")}
    parts = {
        "band: ± one standard deviation over seeds": "band" in kinds,
        "bar: ± one standard deviation over seeds": "bar" in kinds,
        "thin lines: single seeds": "thin" in styles,
        "rings: single seeds": "ring" in styles,
        f"mean over {over}": bool(over),
        f"held out: {''.join(map(str, alone[:1]))}": len(alone) == 1,
        "diamond: published": any(line.style == "diamond" for line in series),
    }
    return "; ".join(text for text, holds in parts.items() if holds)


def _all(rows: Sequence[Row]) -> Iterator[Series]:
    yield from (series for row in rows for panel in row.panels for series in panel.series)
