"""Plots of a data set and of a partition: images by domain and class, and samples of every client."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from fedshift.common.files import atomic_path

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SPLITS = ("train", "val", "test", "target", "unused")
NAMED = 20  # names that a legend can tell apart
SHOWN = 10  # classes in a picture of domains
NAMED_CLASSES = 70  # names that can be read below a map


@contextlib.contextmanager
def _picture(path: Path, figsize: tuple[float, float]) -> Iterator[Figure]:
    """A figure in which `$` is an ordinary character, saved as PNG when the block ends."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with matplotlib.rc_context({"text.parse_math": False}):
        figure = Figure(figsize=figsize, layout="constrained")
        FigureCanvasAgg(figure)
        yield figure
        with atomic_path(path) as temporary:
            figure.savefig(temporary, format="png", dpi=120)


def plot_counts(counts: Mapping[str, Mapping[str, int]], title: str, path: Path) -> None:
    """PNG: a map domain x class whose colour is the number of images; each domain with its total."""
    domains, classes = list(counts), list(next(iter(counts.values())))
    table = np.array([[counts[domain][label] for label in classes] for domain in domains])
    with _picture(path, figsize=(min(24.0, 5 + 0.45 * len(classes)), 1.8 + 0.4 * len(domains))) as figure:
        cells = figure.subplots()
        cells.set_title(title)
        heatmap = cells.imshow(table, aspect="auto", cmap="viridis", interpolation="nearest")
        figure.colorbar(heatmap, ax=cells, label="images")
        totals = zip(domains, table.sum(axis=1), strict=True)
        cells.set_yticks(range(len(domains)), [f"{domain}: {total:,}" for domain, total in totals])
        if len(classes) <= NAMED_CLASSES:
            cells.set_xticks(range(len(classes)), classes, rotation=90)
        else:
            cells.set_xlabel(f"{len(classes)} classes")
        if len(classes) <= 20:
            for (row, column), number in np.ndenumerate(table):
                colour = "black" if number > 0.6 * table.max() else "white"
                cells.text(column, row, number, ha="center", va="center", color=colour, fontsize="x-small")


def plot_partition(table: pd.DataFrame, path: Path) -> None:
    """PNG: stacked bars of samples per client; bars of samples of no client have a separate scale."""
    holder = table["client"].astype(str).where(table["client"] >= 0, table["split"])
    clients = [str(number) for number in range(int(table["client"].max()) + 1)]
    rest = [name for name in ("target", "unused") if (holder == name).any()]
    panels = [names for names in (clients, rest) if names]
    with _picture(path, figsize=(min(14.0, 7 + 0.15 * len(clients)), 6.6)) as figure:
        widths = [min(max(len(clients), 3 * len(rest)), 12 * len(rest or [0])), len(rest)][: len(panels)]
        grid = figure.subplots(3, len(panels), squeeze=False, sharex="col", width_ratios=widths)
        orders = {
            "domain": list(table["domain"].unique()),
            "class": list(table.drop_duplicates("label").sort_values("label")["class"]),
            "split": [name for name in SPLITS if (table["split"] == name).any()],
        }
        for row, (column, order) in zip(grid, orders.items(), strict=True):
            counts = pd.crosstab(holder, table[column]).reindex(columns=order)
            for axes, names in zip(row, panels, strict=True):
                _bars(axes, counts.reindex(index=names).to_numpy(), order)
            row[0].set(ylabel="samples", title=f"samples by {column}")
            if len(order) <= NAMED:
                row[-1].legend(fontsize="x-small", loc="upper left", bbox_to_anchor=(1.02, 1.02))
        grid[-1][0].set(xlabel="client")
        grid[-1][0].xaxis.get_major_locator().set_params(integer=True)
        for axes in grid[-1][1:]:
            axes.set_xticks(range(len(rest)), rest)


def plot_domains(images: np.ndarray[Any, Any], index: pd.DataFrame, path: Path) -> None:
    """PNG: a row per domain, a column per class (at most SHOWN); images: uint8 [n, px, px, 3], as `index`."""
    domains = list(index["domain"].unique())
    labels = index.drop_duplicates("label").sort_values("label")[["label", "class"]].head(SHOWN)
    shape = len(domains), len(labels)
    with _picture(path, figsize=(1.4 + 0.8 * shape[1], 0.5 + 0.8 * shape[0])) as figure:
        grid = figure.subplots(*shape, squeeze=False)
        for axes, name in zip(grid[0], labels["class"], strict=True):
            axes.set_title(name, fontsize="small")
        for row, domain in zip(grid, domains, strict=True):
            for axes, label in zip(row, labels["label"], strict=True):
                axes.set(xticks=[], yticks=[])
                places = np.flatnonzero((index["domain"] == domain) & (index["label"] == label))
                if len(places):
                    axes.imshow(images[places[0]])
            row[0].set_ylabel(domain, fontsize="small")


def _bars(axes: Any, counts: np.ndarray[Any, Any], names: list[str]) -> None:
    """Stacked bars, `counts` [bars, names]: one artist per name, fast for 1,000 clients.

    Limits are set here, because Matplotlib needs a minute to find them for 1,000 clients and 345 classes.
    """
    from matplotlib import colormaps
    from matplotlib.patches import StepPatch

    colours = colormaps["tab10" if len(names) <= 10 else "tab20"]
    edges = (np.arange(len(counts))[:, None] + [-0.4, 0.4]).ravel()
    base = np.zeros(len(counts))
    for number, name in enumerate(names):
        top = base + counts[:, number]
        heights, below = np.full((2, len(edges) - 1), np.nan)
        heights[::2], below[::2] = top, base
        label = f"\N{ZERO WIDTH SPACE}{name}"  # else legends leave out names that begin with "_"
        style: dict[str, Any] = {"label": label, "facecolor": colours(number % colours.N), "linewidth": 0}
        axes.add_artist(StepPatch(heights, edges, baseline=below, fill=True, **style))  # type: ignore[arg-type]
        base = top
    axes.set(xlim=(-0.6, len(counts) - 0.4), ylim=(0, 1.05 * base.max()))
    axes.ticklabel_format(axis="y", style="plain")
