"""Scores: the probabilities of every tested image, with AUROC, F1, sensitivity and specificity.

The measures are scikit-learn's.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow as pa
from sklearn.metrics import multilabel_confusion_matrix, roc_auc_score

from fedshift.common.errors import unknown
from fedshift.evaluations.base import Evaluation, Row, Split, Trained
from fedshift.federation.records import reported

MEASURES = {"auroc": "AUROC", "f1": "F1", "sensitivity": "sensitivity", "specificity": "specificity"}
PLACES = {"id": "own clients", "ood": "held-out domain"}


@dataclass(frozen=True)
class Params:
    """`positive`: the class that counts as positive ("ill"); "": each class in turn, with the mean over
        classes.
    `splits`: "val" and "test" of clients; "target", the held-out domain.
    """

    positive: str = ""
    splits: tuple[Split, ...] = ("test", "target")


def measures(
    labels: list[int], probabilities: list[float], classes: list[str], positive: str
) -> dict[str, float]:
    """MEASURES of a set of n images by their `probabilities` [n * C].

    Each is the mean over classes that some images of the set have and some do not, or the one of the class
    `positive`. NaN if there is no such class.
    """
    truth, scores = np.array(labels), np.reshape(probabilities, (-1, len(classes)))
    chosen = range(len(classes)) if not positive else [classes.index(positive)]
    there = [place for place in chosen if 0 < (truth == place).sum() < len(truth)]
    if not there:
        return dict.fromkeys(MEASURES, float("nan"))
    counts = multilabel_confusion_matrix(truth, scores.argmax(1), labels=there)
    negative, false, missed, right = counts[:, 0, 0], counts[:, 0, 1], counts[:, 1, 0], counts[:, 1, 1]
    return {
        "auroc": float(np.mean([roc_auc_score(truth == place, scores[:, place]) for place in there])),
        "f1": float(np.mean(2 * right / (2 * right + false + missed))),
        "sensitivity": float(np.mean(right / (right + missed))),
        "specificity": float(np.mean(negative / (negative + false))),
    }


class Scores(Evaluation):
    """One row for each model and set: its images (`samples`), labels, and probabilities [n * C], by class."""

    name = "scores"
    Params = Params
    columns = {
        "classes": pa.list_(pa.string()), "positive": pa.string(), "samples": pa.list_(pa.int32()),
        "labels": pa.list_(pa.int16()), "probabilities": pa.list_(pa.float32()),
    }  # fmt: skip
    quantities = {
        f"{measure}_{where}": f"{title}, {place}"
        for measure, title in MEASURES.items()
        for where, place in PLACES.items()
    }

    def rows(self, run: Trained) -> Iterator[Row]:
        if self.hp.positive and self.hp.positive not in run.classes:
            raise unknown("evaluation scores", "class", self.hp.positive, run.classes)
        for place, row, index in run.sets(self.hp.splits):
            labels, probabilities = list[int](), list[float]()
            for out, y in run.outputs(row, index):
                labels += y.tolist()
                probabilities += out.logits.softmax(1).flatten().tolist()
            told = {"classes": run.classes, "positive": self.hp.positive, "samples": index.tolist()}
            yield {**place, **told, "labels": labels, "probabilities": probabilities}

    @staticmethod
    def quantity(table: pd.DataFrame, name: str) -> float:
        """<measure>_id: the mean over the clients' test sets, by the models that tables show. Without test
        images, over their validation sets, if `splits` has "val".

        <measure>_ood: on the held-out domain, the mean over models where a method has several for it. Sets on
        which the measure is not defined are left out.
        """
        measure, _, where = name.rpartition("_")
        if where == "id":
            own = table[table["client"] >= 0]
            own = own[own["split"] == ("test" if (own["split"] == "test").any() else "val")]
            tested = reported({*zip(own["model"], own["stage"], strict=True)})
            chosen = own[(own["model"] == tested[0]) & (own["stage"] == tested[1])]
        else:
            chosen = table[table["client"] == -1]  # not the second one, which chooses rounds
        sets = chosen[["labels", "probabilities", "classes", "positive"]].to_dict("list")
        values = [
            measures(list(labels), list(probabilities), list(classes), positive)[measure]
            for labels, probabilities, classes, positive in zip(*sets.values(), strict=True)
        ]
        defined = [value for value in values if not np.isnan(value)]
        return float(np.mean(defined)) if defined else float("nan")
