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

from fedshift.analysis.collection.collected import Collected
from fedshift.analysis.collection.evaluated import pixels, results_of
from fedshift.analysis.drawing.panels import Axis, Panel, Panels, Picture, Row
from fedshift.analysis.figures._runs import OfRuns, rows_of, shown
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

    def panels(self, workspace: Workspace, collected: Collected) -> Panels:
        """Raises FedshiftError where no run was evaluated."""
        frame = results_of(workspace, collected, "attention")
        clients, client = sorted({*frame["client"]}), self.params.client
        frame = frame[frame["client"] == client]
        if frame.empty:
            what = f"no image of client {client} was evaluated (-1: the held-out domain)"
            cure = f"Say one of: {', '.join(map(str, clients))}."
            raise FedshiftError(
                f"experiments/{collected.experiment.name}.yaml: figures.attention", what, cure
            )
        frame, which = shown(frame, collected, self.params.at)
        methods = rows_of(frame, collected)
        first = frame[frame["method"] == methods[0]].drop_duplicates("sample")
        turn = first.groupby("label").cumcount()
        wanted = first.assign(turn=turn).sort_values(["turn", "label"])["sample"][: self.params.images]
        of = frame.set_index(["method", "sample"])
        images = [_image(sample, of.loc[(methods[0], sample)], len(methods) == 1) for sample in wanted]
        maps = {
            (method, sample): _shares(of.loc[(method, sample)]) for method in methods for sample in wanted
        }
        ends = min(map(np.min, maps.values())), max(map(np.max, maps.values()))
        rows = [Row(images)]
        for method in methods:
            name = method if len(methods) > 1 else "attention"
            drawn = [
                _map(sample, of.loc[(method, sample)], maps[method, sample], ends, name) for sample in wanted
            ]
            rows.append(Row(drawn))
        scale = f"{ends[0]:.1f} to {ends[1]:.1f} × the score of a uniform map"
        note = f"{which}; dark to bright, in all maps: {scale}"
        return Panels("Where attention looks", rows, [], note, (1.35, 1.35))


def _image(sample: int, row: pd.Series[Any], alone: bool) -> Panel:
    values = [(row["class"], f"image {sample}", float("nan"), float("nan"))]
    peak = f"\npeak {_shares(row).max():.1f} × uniform" if alone else ""
    return Panel(
        [],
        Axis(),
        Axis("image"),
        f"class {row['class']}{peak}",
        picture=Picture(pixels(row["pixels"], row["px"]), values),
    )


def _shares(row: pd.Series[Any]) -> NDArray[np.float64]:
    """[positions], each score in shares of a uniform map's, which is 1 / positions."""
    return np.asarray(row["scores"], dtype=float) * len(row["scores"])


def _map(
    sample: int, row: pd.Series[Any], relative: NDArray[np.float64], ends: tuple[float, float], name: str
) -> Panel:
    """The map over its image, dark to bright between the ends; as numbers each share, by column and line."""
    side, span = row["side"], ends[1] - ends[0] or 1.0
    levels = Image.fromarray(((relative - ends[0]) / span).reshape(side, side).astype(np.float32))
    enlarged = np.clip(np.asarray(levels.resize((row["px"], row["px"]), Image.Resampling.BILINEAR)), 0, 1)
    coloured = matplotlib.colormaps[COLOURS](enlarged)[..., :3] * 255
    grey = 128 + FAINT * (pixels(row["pixels"], row["px"]).mean(2, keepdims=True) - 128)
    mixed = (BLEND * coloured + (1 - BLEND) * grey).astype(np.uint8)
    mark = f"share of image {sample}"
    values = [(row["class"], mark, float(i % side), float(share)) for i, share in enumerate(relative)]
    return Panel([], Axis("position"), Axis(name), row["class"], picture=Picture(mixed, values))
