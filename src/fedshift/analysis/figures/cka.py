"""CKA: how alike the features of two clients' networks are, for every pair of clients."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from fedshift.analysis.collection.collected import Collected
from fedshift.analysis.collection.evaluated import results_of
from fedshift.analysis.drawing.panels import Axis, Panel, Panels, Row, Series
from fedshift.analysis.figures._marks import held_out
from fedshift.analysis.figures._runs import rows_of
from fedshift.analysis.figures.base import Figure
from fedshift.analysis.quantities.clients import DOMAINS, domains
from fedshift.storage.workspace import Workspace

PAIRS = 15  # more of them would not be read: then a place for each client, its mean over the others
NAMES = {"client": "first", "other": "second"}  # number -> column of the name
BESIDE = 0.6  # of the room between two places, for the methods side by side


@dataclass(frozen=True)
class Params:
    """from_zero: whether the axis of CKA begins at 0."""

    from_zero: bool = True


class CKA(Figure):
    """A dot for each pair of clients and row of the experiment: the mean over runs; rings: single runs."""

    name = "cka"
    evaluations = ("cka",)
    Params = Params

    def panels(self, workspace: Workspace, collected: Collected) -> Panels:
        """Raises FedshiftError where no run was evaluated."""
        frame = _placed(_named(collected, results_of(workspace, collected, "cka")))
        methods, places = rows_of(frame, collected), [*dict.fromkeys(frame.sort_values("rank")["place"])]
        series = []
        for number, method in enumerate(methods):
            aside = BESIDE * ((number + 0.5) / len(methods) - 0.5)
            own = frame[frame["method"] == method]
            for place, part in own.groupby("place"):
                values = part.groupby("digest")["cka"].mean()
                x = places.index(place) + aside
                if len(values) > 1:
                    series.append(Series(method, "run", [x] * len(values), [*values], "ring"))
                series.append(Series(method, "mean", [x], [float(values.mean())], "dot"))
        limits = (-0.5, len(places) - 0.5)
        x_axis = Axis(
            "pair of clients" if "–" in places[0] else "client, mean over all others",
            ticks=dict(enumerate(places)),
            limits=limits,
            whole=True,
        )
        ends = (0.0, 1.03) if self.params.from_zero else None
        y_axis = Axis("linear CKA of features\n(1: alike)", limits=ends)
        width = max(3.6, 0.5 * len(places))
        several = "dots: means over runs; rings: runs" if frame["digest"].nunique() > len(methods) else ""
        note = "; ".join(filter(None, [held_out(collected, frame), several]))
        row = Row([Panel(series, x_axis, y_axis)])
        return Panels("Similarity of clients' networks", [row], methods, note, (width, 2.7), names="beside")


def _named(collected: Collected, frame: pd.DataFrame) -> pd.DataFrame:
    """With NAMES, what the two are called: by their domains, or by number where clients share a domain."""
    known, keys = domains(collected), collected.keys
    for number, name in NAMES.items():
        of = known.rename(columns={"client": number, DOMAINS: name})
        frame = frame.merge(of, how="left", on=[*keys, number])
    if known.duplicated([*keys, DOMAINS]).any() or frame[[*NAMES.values()]].isna().any(axis=None):
        return frame.assign(**{name: frame[number].astype(str) for number, name in NAMES.items()})
    return frame


def _placed(frame: pd.DataFrame) -> pd.DataFrame:
    """With `place` and its `rank` on the axis: the pair of clients, or of many clients each of the two."""
    if len(frame[[*NAMES.values()]].drop_duplicates()) <= PAIRS:
        place = frame["first"] + "–" + frame["second"]
        return frame.assign(place=place, rank=frame["client"] * 1000 + frame["other"])
    both = [frame.assign(place=frame[name], rank=frame[number]) for number, name in NAMES.items()]
    return pd.concat(both, ignore_index=True)
