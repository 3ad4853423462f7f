"""Attention: images and, below each, where StableFDG's attention module looks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import matplotlib
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from PIL import Image
from pydantic import Field

from fedshift.analysis.collected import Collected
from fedshift.analysis.evaluated import pixels, results_of
from fedshift.analysis.figures._queries import OfRuns, rows_of
from fedshift.analysis.figures.base import Axis, Plot
from fedshift.common.errors import FedshiftError
from fedshift.storage.workspace import Workspace

COLOURS = "inferno"  # dark to bright, so that grey shows the order, too
BLEND = 0.6  # of the map over the image
FAINT = 0.5  # of the image's contrast, which would pass for attention


@dataclass(frozen=True)
class Params:
    """at: values on axes, one run of each row at these; the first of the file on others.
    images: how many, one of each class in turn; client: whose, -1 the held-out domain.
    """

    at: tuple[str, ...] = ()
    images: int = 6
    client: Annotated[int, Field(ge=-1)] = -1


class Attention(OfRuns):
    """A column for each image: itself, then its map for each row of the experiment, over the image in faint
    grey. All maps have one scale, from the least to the highest score of all, in shares of a uniform map's.
    Above them, of a single row: its own highest score.
    """

    name = "attention"
    evaluations = ("attention",)
    Params = Params

    def plot(self, workspace: Workspace, collected: Collected) -> Plot:
        """Raises FedshiftError where no run was evaluated."""
        frame = results_of(workspace, collected, "attention")
        clients, client = sorted({*frame["client"]}), self.params.client
        frame = frame[frame["client"] == client]
        if frame.empty:
            what = f"no image of client {client} was evaluated (-1: the held-out domain)"
            fix = f"Say one of: {', '.join(map(str, clients))}."
            raise FedshiftError(f"experiments/{collected.experiment.name}.yaml: figures.attention", what, fix)
        frame, which = self.shown(frame, collected)
        methods = rows_of(frame, collected)
        first = frame[frame["method"] == methods[0]].drop_duplicates("sample")
        turn = first.assign(turn=first.groupby("label").cumcount()).sort_values(["turn", "label"])
        shown = frame[frame["sample"].isin(turn["sample"][: self.params.images])]
        shown = shown.assign(shares=shown["scores"].map(_shares)).set_index(["method", "sample"])
        ends = min(map(np.min, shown["shares"])), max(map(np.max, shown["shares"]))

        parts, pictures = [], {}
        for sample in turn["sample"][: self.params.images]:
            image = shown.loc[(methods[0], sample)]
            peak = f"\npeak {image['shares'].max():.1f} × uniform" if len(methods) == 1 else ""
            panel = f"{image['class']}, image {sample}{peak}"
            pictures["", "image", panel] = pixels(image["pixels"], image["px"])
            parts.append(_values(image, panel, "image", mark="image"))
            for method in methods:
                row, name = shown.loc[(method, sample)], method if len(methods) > 1 else "attention"
                pictures["", name, panel] = _map(row, ends)
                x = np.arange(len(row["shares"])) % row["side"]
                parts.append(_values(row, panel, name, mark="share of a uniform map", x=x, y=row["shares"]))
        scale = f"{ends[0]:.1f} to {ends[1]:.1f} × the score of a uniform map"
        names = ["image", *(methods if len(methods) > 1 else ["attention"])]
        frame = pd.concat(parts, ignore_index=True)
        frame = frame.iloc[np.argsort(frame["y_axis"].map(names.index), kind="stable")]
        note = f"{which}; dark to bright, in all maps: {scale}"
        axes = [Axis(name) for name in names]
        return Plot(
            "Where attention looks",
            frame,
            Axis("position"),
            axes,
            note=note,
            size=(1.35, 1.35),
            pictures=pictures,
        )


def _values(row: pd.Series[Any], panel: str, name: str, **values: Any) -> pd.DataFrame:
    empty = {"x": [float("nan")], "y": [float("nan")]}
    return pd.DataFrame({**empty, **values, "label": row["class"], "panel": panel, "y_axis": name})


def _shares(scores: Any) -> NDArray[np.float64]:
    """[positions], each score in shares of a uniform map's, which is 1 / positions."""
    return np.asarray(scores, dtype=float) * len(scores)


def _map(row: pd.Series[Any], ends: tuple[float, float]) -> NDArray[np.uint8]:
    """[px, px, 3]: the map over its image, dark to bright between the ends."""
    side, span = row["side"], ends[1] - ends[0] or 1.0
    levels = Image.fromarray(((row["shares"] - ends[0]) / span).reshape(side, side).astype(np.float32))
    enlarged = np.clip(np.asarray(levels.resize((row["px"], row["px"]), Image.Resampling.BILINEAR)), 0, 1)
    coloured = matplotlib.colormaps[COLOURS](enlarged)[..., :3] * 255
    grey = 128 + FAINT * (pixels(row["pixels"], row["px"]).mean(2, keepdims=True) - 128)
    return np.asarray(BLEND * coloured + (1 - BLEND) * grey, dtype=np.uint8)
