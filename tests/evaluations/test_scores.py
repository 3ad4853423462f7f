"""AUROC, F1, sensitivity and specificity: by hand, of one class and of several, and of a run."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fedshift.common.errors import FedshiftError
from fedshift.evaluations.scores import MEASURES, Scores, measures
from tests.evaluations.test_contract import restored, table

CLASSES = ["well", "ill"]
ILL = [0.1, 0.4, 0.35, 0.8, 0.6]  # probability of the second class
TRUTH = [0, 0, 1, 1, 1]


def of(ill: list[float]) -> list[float]:
    return [value for one in ill for value in (1 - one, one)]


def test_a_class_that_counts_as_positive() -> None:
    """Of six pairs one is in the wrong order (0.4 over 0.35); of three ill two are found, of two well none is missed."""
    found = measures(TRUTH, of(ILL), CLASSES, "ill")
    assert found == pytest.approx(
        {"auroc": 5 / 6, "f1": 2 * 2 / (2 * 2 + 0 + 1), "sensitivity": 2 / 3, "specificity": 1.0}
    )
    other = measures(TRUTH, of(ILL), CLASSES, "well")
    assert other == pytest.approx(
        {"auroc": 5 / 6, "f1": 2 * 2 / (2 * 2 + 1 + 0), "sensitivity": 1.0, "specificity": 2 / 3}
    )
    both = measures(TRUTH, of(ILL), CLASSES, "")
    assert both == pytest.approx({name: (found[name] + other[name]) / 2 for name in MEASURES})


def test_classes_that_no_image_has_are_left_out() -> None:
    """A third class without an image, to which the network gives some probability."""
    three = [value for one in ILL for value in (0.9 * (1 - one), 0.9 * one, 0.1)]
    assert measures(TRUTH, three, [*CLASSES, "absent"], "") == pytest.approx(
        measures(TRUTH, of(ILL), CLASSES, "")
    )
    alone = measures([1, 1], of([0.2, 0.9]), CLASSES, "ill")
    assert all(np.isnan(value) for value in alone.values())


def test_which_sets_a_number_is_of() -> None:
    """`id`: both clients' own test images; `ood`: those of the held-out domain, a mean over its models."""
    truth = {-1: [0, 1, 1, 1], 0: [0, 0, 1, 1], 1: [0, 0, 0, 1]}
    rows = [
        {"client": client, "split": "test" if client >= 0 else "target", "model": model, "stage": "post_agg",
         "labels": labels, "probabilities": of([shift, 0.7, 0.3, 0.9]), "classes": CLASSES, "positive": "ill"}
        for client, labels in truth.items()
        for model, shift in ((("global", 0.2), ("second", 0.8)) if client < 0 else (("global", 0.2),))
    ]  # fmt: skip
    found = {where: Scores.quantity(pd.DataFrame(rows), f"sensitivity_{where}") for where in ("id", "ood")}
    # at 0.5: of 0.2 (or 0.8), 0.7, 0.3, 0.9 the second and the last are called ill
    assert found == {"id": pytest.approx((1 / 2 + 1) / 2), "ood": pytest.approx(2 / 3)}
    validated = pd.DataFrame(rows).replace({"split": {"test": "val"}})  # a partition without a test part
    assert Scores.quantity(validated, "sensitivity_id") == found["id"]
    second = {**rows[0], "client": -2, "probabilities": of([0.0, 0.0, 0.0, 0.0])}  # it chooses rounds
    assert Scores.quantity(pd.DataFrame([*rows, second]), "sensitivity_ood") == found["ood"]
    auroc = [measures(row["labels"], row["probabilities"], CLASSES, "ill")["auroc"] for row in rows[:2]]
    assert auroc[0] != auroc[1]
    assert Scores.quantity(pd.DataFrame(rows), "auroc_ood") == pytest.approx(np.mean(auroc))


def test_of_a_run(tmp_path: Path) -> None:
    """`id` is the mean over clients of the models that tables show, `ood` that of the held-out domain."""
    _, run = restored("fedavg", tmp_path)
    made = table("scores", run, positive="bright")
    rows = made.to_pylist()
    place = {}
    for row in rows:
        scores = np.reshape(row["probabilities"], (-1, 2))
        assert scores.sum(1) == pytest.approx(np.ones(len(scores)), abs=1e-5)
        assert len(row["samples"]) == len(row["labels"]) == len(scores)
        place[row["client"]] = measures(row["labels"], row["probabilities"], CLASSES, "ill")
    own = [value for client, value in place.items() if client >= 0]
    for name in MEASURES:
        expected = {"id": np.mean([one[name] for one in own]), "ood": place[-1][name]}
        for where, value in expected.items():
            assert Scores.quantity(made.to_pandas(), f"{name}_{where}") == pytest.approx(value, nan_ok=True)
    assert "AUROC" in Scores.line(made)
    with pytest.raises(FedshiftError, match="unknown class 'ill'"):
        table("scores", run, positive="ill")
