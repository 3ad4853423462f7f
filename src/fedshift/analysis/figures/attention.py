"""Attention: images and, below each, where StableFDG's attention module looks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from PIL import Image

from fedshift.analysis.collected import Collected
from fedshift.analysis.evaluated import pixels, results_of
from fedshift.analysis.figures.base import At, Axis, Figure, Plot, rows_of, shown
from fedshift.storage.workspace import Workspace

COLOURS = "inferno"  # dark to bright, so that grey shows the order, too
BLEND = 0.6  # of the map over the image
FAINT = 0.5  # of the image's contrast, which would look like attention


@dataclass(frozen=True)
class Params(At):
    """`images`: how many, one of each class in turn."""

    images: int = 6


class Attention(Figure):
    """One column per image: the image, then each row's attention map over it in faint grey.

    All maps share one scale, from the lowest to the highest score of all, relative to a uniform map. If the
    experiment has a single row, its highest score is above each map.
    """

    name = "attention"
    evaluations = ("attention",)
    Params = Params

    def plot(self, workspace: Workspace, collected: Collected) -> Plot:
        frame, which = shown(results_of(workspace, collected, "attention"), collected, self.params.at)
        methods = rows_of(frame, collected)
        names = methods if len(methods) > 1 else ["attention"]
        first = frame[frame["method"] == methods[0]].drop_duplicates("sample")
        turn = first.assign(turn=first.groupby("label").cumcount()).sort_values(["turn", "label"])
        samples = [*turn["sample"][: self.params.images]]
        maps = frame[frame["sample"].isin(samples)].reset_index(drop=True)
        maps["y"] = maps["scores"].map(lambda scores: np.asarray(scores, float) * len(scores))  # uniform: 1
        ends = min(map(np.min, maps["y"])), max(map(np.max, maps["y"]))
        maps["panel"] = maps["class"] + ", image " + maps["sample"].astype(str)
        if len(methods) == 1:
            maps["panel"] += maps["y"].map(lambda shares: f"\npeak {shares.max():.1f} × uniform")
        maps = maps.assign(
            label=maps["class"], y_axis=maps["method"].map(dict(zip(methods, names, strict=True)))
        )
        images = maps[maps["method"] == methods[0]].assign(y=np.nan, mark="image", y_axis="image")
        cells = maps.explode("y").assign(mark="share of a uniform map")
        cells["x"] = cells.groupby(level=0).cumcount() % cells["side"]
        drawn = [(row, pixels(row["pixels"], row["px"])) for _, row in images.iterrows()]
        drawn += [(row, _map(row, ends)) for _, row in maps.iterrows()]
        scale = f"{ends[0]:.1f} to {ends[1]:.1f} × the score of a uniform map"
        return Plot(
            "Where attention looks",
            pd.concat([images, cells], ignore_index=True),
            Axis("position"),
            [*map(Axis, ["image", *names])],
            note=f"{which}; dark to bright, in all maps: {scale}",
            size=(1.35, 1.35),
            pictures={("", row["y_axis"], row["panel"]): picture for row, picture in drawn},
            order={"y_axis": ["image", *names], "sample": samples},
        )


def _map(row: pd.Series[Any], ends: tuple[float, float]) -> NDArray[np.uint8]:
    """[px, px, 3]: the map over its image, dark to bright between the ends."""
    side, span = row["side"], ends[1] - ends[0] or 1.0
    levels = Image.fromarray(((row["y"] - ends[0]) / span).reshape(side, side).astype(np.float32))
    enlarged = np.clip(np.asarray(levels.resize((row["px"], row["px"]), Image.Resampling.BILINEAR)), 0, 1)
    coloured = matplotlib.colormaps[COLOURS](enlarged)[..., :3] * 255
    grey = 128 + FAINT * (pixels(row["pixels"], row["px"]).mean(2, keepdims=True) - 128)
    return np.asarray(BLEND * coloured + (1 - BLEND) * grey, dtype=np.uint8)
