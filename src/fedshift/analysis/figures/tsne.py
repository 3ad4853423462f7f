"""T-SNE: a map of the features of all clients' images, by class and by domain, with distances as numbers."""

import pandas as pd

from fedshift.analysis.collected import Collected
from fedshift.analysis.evaluated import results_of
from fedshift.analysis.figures.base import At, Axis, Figure, Plot, in_order, rows_of, shown
from fedshift.storage.workspace import Workspace

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
        numbers = results_of(workspace, collected, "distances")
        numbers = numbers.drop_duplicates("digest").set_index("digest")  # rows may share a run
        methods = rows_of(frame, collected)
        maps = []
        for method in methods:
            own = frame[frame["method"] == method]
            of = numbers.loc[own["digest"].iloc[0]]
            title = f"{method}\nbetween classes {of['inter']:.2f}, within {of['intra']:.2f}"
            maps.append(_filling(own).assign(panel=title))
        dots = pd.concat(maps).assign(mark="image")
        ordered = frame.sort_values("label")
        labels = [name for by in BY for name in ordered[by].unique()]
        parts = [dots.assign(label=dots[by], y_axis=words) for by, words in BY.items()]
        return Plot(
            "Map of the features (t-SNE)",
            in_order(pd.concat(parts), y_axis=[*BY.values()], panel=[*dots["panel"].unique()], label=labels),
            Axis(ticks=(), limits=LIMITS),
            [Axis(words, ticks=(), limits=LIMITS) for words in BY.values()],
            labels,
            f"{which}; a dot: an image of a client; distances between features of length 1: mean of pairs",
            size=(2.9, 2.7),
        )


def _filling(frame: pd.DataFrame) -> pd.DataFrame:
    """Centre a map in its panel, between 0 and 1 on its longer side."""
    places = frame[["x", "y"]].astype(float)
    low, high = places.min(), places.max()
    return frame.assign(**0.5 + (places - (low + high) / 2) / ((high - low).max() or 1.0))
