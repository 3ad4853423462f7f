"""A partition as a picture: stacked bars of what every client holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from fedshift.files import atomic_path


def plot_partition(table: pd.DataFrame, path: Path) -> None:
    """PNG: samples per client by domain, by class and by split; held-out and unused ones as columns too."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    holder = table["client"].astype(str).where(table["client"] >= 0, table["split"])
    order = [*map(str, range(table["client"].max() + 1)), *sorted(set(holder) & {"target", "unused"})]
    figure = Figure(figsize=(max(8.0, 0.3 * len(order) * 3), 3.6), layout="constrained")
    FigureCanvasAgg(figure)
    for axes, column in zip(figure.subplots(1, 3, sharey=True), ("domain", "class", "split"), strict=True):
        counts = pd.crosstab(holder, table[column])
        _bars(axes, counts.reindex(index=order, columns=list(dict.fromkeys(table[column]))), column)
    with atomic_path(path) as temporary:
        figure.savefig(temporary, format="png", dpi=120)


def _bars(axes: Any, counts: pd.DataFrame, title: str) -> None:
    from matplotlib import colormaps

    base = pd.Series(0, index=counts.index)
    for number, name in enumerate(counts.columns):
        axes.bar(counts.index, counts[name], bottom=base, label=name, color=colormaps["tab20"](number % 20))
        base = base + counts[name]
    axes.set(title=f"samples by {title}", xlabel="client", ylabel="samples")
    axes.tick_params(axis="x", labelrotation=90 if len(counts) > 8 else 0)
    if counts.shape[1] <= 20:
        axes.legend(fontsize="x-small")
