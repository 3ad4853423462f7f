"""Metrics: pure functions, against scikit-learn on the samples themselves and by hand; aggregations over clients; tables of them."""

import itertools
import shutil
from typing import Any

import numpy as np
import pytest

from fedshift.analysis.metrics.base import Metric
from fedshift.analysis.notes import notes
from fedshift.analysis.quantities import curves
from fedshift.common.errors import FedshiftError
from fedshift.common.registry import get, names, own
from fedshift.experiments.column import AGGREGATIONS, quantity
from fedshift.experiments.expand import expand
from fedshift.experiments.load import load
from fedshift.federation.records import BINS, TYPES, Statistics
from tests.verbs import done, fedshift, refused

from .conftest import Project, accuracy, counted

CLASSES, SAMPLES = 4, 500


def predictions() -> tuple[Any, Any, Any]:
    """Labels (none of the last class), predictions and confidences of 500 samples."""
    rng = np.random.default_rng(3)
    y, confidence = rng.integers(0, CLASSES - 1, SAMPLES), rng.uniform(0.25, 1, SAMPLES)
    return y, np.where(rng.random(SAMPLES) < confidence, y, rng.integers(0, CLASSES, SAMPLES)), confidence


def statistics_of(y: Any, predicted: Any, confidence: Any) -> Statistics:
    correct, bins = y == predicted, (confidence * BINS).astype(int)
    count = lambda places, size: np.bincount(places, minlength=size).astype(float)  # noqa: E731
    n = count(y, CLASSES)
    return Statistics(
        n, count(y[correct], CLASSES), np.where(n > 0, 0.5, 0.0),
        count(bins[~correct], BINS), count(bins[correct], BINS), np.bincount(bins, confidence, BINS),
    )  # fmt: skip


def computed(name: str, statistics: Statistics) -> float:
    metric: type[Metric] = get("metrics", name)
    return float(metric.compute(*(getattr(statistics, of) for of in metric.reads())))


def test_each_is_what_it_says_of_the_samples() -> None:
    sklearn = pytest.importorskip("sklearn.metrics")
    y, predicted, confidence = predictions()
    statistics = statistics_of(y, predicted, confidence)
    recalls = [np.mean(predicted[y == label] == label) for label in range(CLASSES - 1)]
    bins = (confidence * BINS).astype(int)
    gaps = [
        np.mean(bins == place)
        * abs(np.mean((y == predicted)[bins == place]) - np.mean(confidence[bins == place]))
        for place in sorted({*bins})
    ]
    of_bin = np.array([np.mean(confidence[bins == place]) for place in bins])
    expected = {
        "accuracy": sklearn.accuracy_score(y, predicted),
        "balanced_accuracy": np.mean(recalls),
        "worst_class": min(recalls),
        "confidence": np.mean(confidence),
        "confidence_right": np.mean(of_bin[y == predicted]),
        "confidence_wrong": np.mean(of_bin[y != predicted]),
        "ece": sum(gaps),
        "loss": 0.5,
    }
    assert {*expected} == {*own("metrics")}
    for name, value in expected.items():
        assert computed(name, statistics) == pytest.approx(value, rel=1e-12), name


@pytest.mark.parametrize("name", names("metrics"))
def test_a_metric_is_pure_and_takes_many_sets_at_once(name: str) -> None:
    metric: type[Metric] = get("metrics", name)
    assert (metric.name, metric.better in ("higher", "lower")) == (name, True)
    assert {*metric.reads()} <= {*TYPES} and metric.title
    many = counted(6)
    arrays = [getattr(many, of).astype(float) for of in metric.reads()]
    before = [array.copy() for array in arrays]
    together = metric.compute(*arrays)
    assert all(np.array_equal(array, other) for array, other in zip(arrays, before, strict=True))
    assert together.shape == (6,) and np.isfinite(together).all()
    alone = [metric.compute(*(array[place] for array in arrays)) for place in range(6)]
    np.testing.assert_allclose(together, alone, rtol=1e-14)
    nothing = metric.compute(*(np.zeros_like(array[:1]) for array in arrays))
    assert np.isnan(nothing[0]) or nothing[0] == 0  # a set without samples stops nothing


def two_clients(project: Project, **declared: Any) -> Statistics:
    """One run of two clients (10 and 30 training samples) and a held-out domain, in one round."""
    project.declare(methods={"fedavg": None}, axes={"target": ["a"]}, **declared)
    statistics = counted(5)  # of test of both, validation of both, target
    recorded = statistics.correct.sum(-1) / statistics.n.sum(-1)
    rounds = {1: accuracy(tuple(recorded[:2]), ood=recorded[4], val=tuple(recorded[2:4]))}
    project.add("fedavg", rounds, sizes=(10, 30), target="a", statistics=statistics)
    return statistics


def test_every_metric_under_every_aggregation(project: Project) -> None:
    """`pooled` accuracy is weighted by the number that is recorded beside it, 10 for each in the project; each loss is 1 there."""
    of = two_clients(project)
    wanted = [
        f"{metric}.{aggregation}"
        for metric in names("metrics")
        for aggregation in AGGREGATIONS
        if aggregation != "pooled" or get("metrics", metric).recorded
    ]
    row = curves(project.collect(), wanted).iloc[0]
    assert [row[f"loss.{aggregation}"] for aggregation in AGGREGATIONS] == [1, 1, 1, 1, 1, 1, 0]
    arrays = {**vars(of), "loss": of.loss.astype(np.float16)}
    for name in {*names("metrics")} - {"loss"}:
        metric: type[Metric] = get("metrics", name)
        first, second, *_, target = metric.compute(*(arrays[key].astype(float) for key in metric.reads()))
        mean = (first + second) / 2
        worst = min(first, second) if metric.better == "higher" else max(first, second)
        expected = {
            "id": mean, "avg": mean, "all": (10 * first + 30 * second) / 40, "ood": target,
            "worst": worst, "std": abs(first - second) / 2,
        }  # fmt: skip
        if metric.recorded:
            expected["pooled"] = mean
        for aggregation, value in expected.items():
            assert row[f"{name}.{aggregation}"] == pytest.approx(100 * value, rel=1e-6), (name, aggregation)
    for aggregation in ("id", "ood", "all", "avg"):
        assert row[aggregation] == row[f"accuracy.{aggregation}"]


def test_runs_with_other_numbers_of_classes_stand_in_one_table(project: Project) -> None:
    project.declare(methods={"fedavg": None}, axes={"target": ["a"], "seed": [0, 1]})
    classes = {0: 4, 1: 7}
    for seed, many in classes.items():
        rounds = {r: accuracy((0.5, 0.5), ood=0.5) for r in (1, 2)}
        project.add("fedavg", rounds, target="a", seed=seed, statistics=counted(10, many, seed))
    quantities = ["balanced_accuracy.id", "worst_class.ood"]
    frame = curves(project.collect(), quantities).set_index(["seed", "round"])[quantities]
    for (seed, many), (place, finished) in itertools.product(classes.items(), enumerate((1, 2))):
        of = counted(10, many, seed)
        tests, target = slice(5 * place, 5 * place + 2), slice(5 * place + 4, 5 * place + 5)
        recalls = [
            correct[n > 0] / n[n > 0]
            for part in (tests, target)
            for correct, n in zip(of.correct[part], of.n[part], strict=True)
        ]
        expected = [50 * (recalls[0].mean() + recalls[1].mean()), 100 * recalls[2].min()]
        assert frame.loc[(seed, finished)].tolist() == pytest.approx(expected)


def test_a_table_shows_what_it_names(project: Project) -> None:
    metrics = ["ood", "ece.ood", "loss.id", "worst_class.id", "accuracy.worst"]
    two_clients(project, tables={"t": {"columns": ["target"], "metrics": metrics}, "plain": {}})
    collected = project.collect()
    frame = project.shown(collected)
    assert frame["metric"].tolist() == metrics
    assert frame["mean"].tolist() == pytest.approx(curves(collected, metrics).iloc[0][metrics].tolist())
    text = project.page(collected)
    header = next(line for line in text.splitlines() if line.startswith("| method"))
    for heading in ("a ood", "a ECE ood", "a loss id", "a worst class id", "a worst client"):
        assert heading in header
    assert "1.000" in text  # a loss is no percentage
    assert any("Expected calibration error" in note for note in notes(collected))
    shutil.rmtree(project.workspace.results / "tables")
    root, asked = project.workspace.root, ("--metric", "ece.ood", "--metric", "worst_class.id")
    text = done(fedshift(root, "table", "toy", *asked))
    assert "ECE ood" in text and "worst class id" in text and "## plain" in text
    assert not (project.workspace.results / "tables").exists()
    refused(fedshift(root, "table", "toy", "--metric", "eec.ood"), "Did you mean 'ece'?")


def test_runs_of_before_statistics_have_accuracy_and_loss(project: Project) -> None:
    table = {"metrics": ["ood", "loss.ood", "ece.ood"]}
    project.declare(methods={"fedavg": None}, axes={"target": ["a"]}, tables={"t": table})
    project.add("fedavg", {1: accuracy((0.4, 0.8), ood=0.25)}, target="a", loss=0.75)
    collected = project.collect()
    assert project.shown(collected)["mean"].tolist() == pytest.approx([25, 0.75, float("nan")], nan_ok=True)
    said = "1 runs were trained before statistics were recorded and have no ece"
    assert any(said in note for note in notes(collected))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("eec.ood", "Did you mean 'ece'?"),
        ("ece.odo", "Did you mean 'ood'?"),
        ("ece", "Write ece.<aggregation>: ece.id, ece.ood"),
        ("odo", "'ood'"),
    ],
)
def test_a_name_that_is_none_is_refused_before_anything_is_trained(
    project: Project, text: str, said: str
) -> None:
    with pytest.raises(FedshiftError, match=said.replace("?", r"\?")):
        quantity(text)
    project.declare(
        methods={"fedavg": None}, axes={"target": ["plain"]}, tables={"main": {"metrics": [text]}}
    )
    with pytest.raises(FedshiftError, match=r"experiments/toy.yaml: tables.main.metrics"):
        list(expand(project.workspace, load(project.workspace, "toy")))
