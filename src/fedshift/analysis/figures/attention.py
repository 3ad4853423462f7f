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
from fedshift.analysis.figures.base import At, Axis, Figure, Plot, in_order, rows_of, shown
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
        samples = turn["sample"][: self.params.images]
        frame = frame[frame["sample"].isin(samples)]
        shares = frame["scores"].map(lambda scores: np.asarray(scores, float) * len(scores))  # uniform: 1
        images = frame.assign(shares=shares).set_index(["method", "sample"])
        ends = min(map(np.min, shares)), max(map(np.max, shares))

        parts, pictures = [], {}
        for sample in samples:
            image = images.loc[(methods[0], sample)]
            peak = f"\npeak {image['shares'].max():.1f} × uniform" if len(methods) == 1 else ""
            of: dict[str, Any] = {"label": image["class"], "panel": f"{image['class']}, image {sample}{peak}"}
            pictures["", "image", of["panel"]] = pixels(image["pixels"], image["px"])
            parts.append(pd.DataFrame({"x": [np.nan], "y": np.nan, "mark": "image", **of, "y_axis": "image"}))
            for method, name in zip(methods, names, strict=True):
                row = images.loc[(method, sample)]
                pictures["", name, of["panel"]] = _map(row, ends)
                values = {"x": np.arange(len(row["shares"])) % row["side"], "y": row["shares"]}
                of = of | {"mark": "share of a uniform map", "y_axis": name}
                parts.append(pd.DataFrame({**values, **of}))
        scale = f"{ends[0]:.1f} to {ends[1]:.1f} × the score of a uniform map"
        return Plot(
            "Where attention looks",
            in_order(pd.concat(parts, ignore_index=True), y_axis=["image", *names]),
            Axis("position"),
            [*map(Axis, ["image", *names])],
            note=f"{which}; dark to bright, in all maps: {scale}",
            size=(1.35, 1.35),
            pictures=pictures,
        )


def _map(row: pd.Series[Any], ends: tuple[float, float]) -> NDArray[np.uint8]:
    """[px, px, 3]: the map over its image, dark to bright between the ends."""
    side, span = row["side"], ends[1] - ends[0] or 1.0
    levels = Image.fromarray(((row["shares"] - ends[0]) / span).reshape(side, side).astype(np.float32))
    enlarged = np.clip(np.asarray(levels.resize((row["px"], row["px"]), Image.Resampling.BILINEAR)), 0, 1)
    coloured = matplotlib.colormaps[COLOURS](enlarged)[..., :3] * 255
    grey = 128 + FAINT * (pixels(row["pixels"], row["px"]).mean(2, keepdims=True) - 128)
    return np.asarray(BLEND * coloured + (1 - BLEND) * grey, dtype=np.uint8)
