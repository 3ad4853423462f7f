"""T-SNE: a map of the features of all clients' images, by class and by domain, with distances as numbers."""

import pandas as pd

from fedshift.analysis.collected import Collected
from fedshift.analysis.evaluated import results_of
from fedshift.analysis.figures.base import At, Axis, Figure, Plot, rows_of, shown
from fedshift.storage.workspace import Workspace

MEANING = "a dot: an image of a client; distances between features of length 1: mean of pairs"
LIMITS = (-0.05, 1.05)
BY = {"class": "coloured\nby class", "domain": "coloured\nby domain"}


class TSNE(Figure):
    """A panel for each row of the experiment, with one dot per image.

    Above it are the mean distances between images of two classes and of one class. A map has no unit and
    fills its panel.
    """

    name = "tsne"
    evaluations = ("tsne", "distances")
    Params = At

    def plot(self, workspace: Workspace, collected: Collected) -> Plot:
        frame, which = shown(results_of(workspace, collected, "tsne"), collected, self.params.at)
        numbers = results_of(workspace, collected, "distances")[["digest", "inter", "intra"]]
        dots = frame.merge(numbers.drop_duplicates("digest"), on="digest")  # rows may share a run
        inter, intra = dots["inter"].map("{:.2f}".format), dots["intra"].map("{:.2f}".format)
        dots["panel"] = dots["method"] + "\nbetween classes " + inter + ", within " + intra
        maps = dots.groupby("method")[["x", "y"]]  # each between 0 and 1 on its longer side, in the middle
        low, high = maps.transform("min"), maps.transform("max")
        longer = (high - low).max(axis=1).replace(0, 1.0)
        dots[["x", "y"]] = 0.5 + (dots[["x", "y"]] - (low + high) / 2).div(longer, axis=0)
        parts = [dots.assign(mark="image", label=dots[by], y_axis=words) for by, words in BY.items()]
        labels = [name for by in BY for name in frame.sort_values("label")[by].unique()]
        return Plot(
            "Map of the features (t-SNE)",
            pd.concat(parts),
            Axis(ticks=(), limits=LIMITS),
            [Axis(words, ticks=(), limits=LIMITS) for words in BY.values()],
            note=f"{which}; {MEANING}",
            size=(2.9, 2.7),
            order={"y_axis": [*BY.values()], "method": rows_of(frame, collected), "label": labels},
        )
