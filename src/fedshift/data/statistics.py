"""A data set as a picture: images per domain, and per domain and class."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from fedshift.files import atomic_path

NAMED = 70  # classes whose names can be read


def plot_counts(counts: Mapping[str, Mapping[str, int]], title: str, path: Path) -> None:
    """PNG: bars of images per domain, and a map domain x class (its colour is the number of images; written in if there are few)."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    domains, classes = list(counts), list(next(iter(counts.values())))
    table = np.array([[counts[domain][label] for label in classes] for domain in domains])
    width = min(24.0, 5 + 0.45 * len(classes))
    figure = Figure(figsize=(width, 1.8 + 0.4 * len(domains)), layout="constrained")
    FigureCanvasAgg(figure)
    bars, cells = figure.subplots(1, 2, width_ratios=[3, max(4.0, width - 3)])
    bars.barh(domains, table.sum(axis=1), color="tab:blue")
    bars.bar_label(bars.containers[0], fmt="{:,.0f}", fontsize="x-small", label_type="center", color="white")
    bars.invert_yaxis()
    bars.set(title=title, xlabel="images")
    shown = cells.imshow(table, aspect="auto", cmap="viridis", interpolation="nearest")
    figure.colorbar(shown, ax=cells, label="images")
    cells.set_yticks(range(len(domains)), domains)
    if len(classes) <= NAMED:
        cells.set_xticks(range(len(classes)), classes, rotation=90)
    else:
        cells.set_xlabel(f"{len(classes)} classes")
    if len(classes) <= 20:
        for (row, column), number in np.ndenumerate(table):
            colour = "black" if number > 0.6 * table.max() else "white"
            cells.text(column, row, number, ha="center", va="center", color=colour, fontsize="x-small")
    with atomic_path(path) as temporary:
        figure.savefig(temporary, format="png", dpi=120)
