"""The round that tables show, and the four accuracies of a run in it."""

from __future__ import annotations

import pandas as pd
import pytest

from fedshift.analysis.select import choose, curves, selected

from .conftest import Project, accuracy

# Validation ALL with sizes 7 and 21: 0.1, 0.225, 0.225, 0.2. Rounds 1 and 2 tie; in floating point the second is larger by one bit.
TIED = {
    0: accuracy((0.0, 0.0), ood=0.0, val=(0.1, 0.1)),
    1: accuracy((0.4, 0.8), ood=0.1, val=(0.0, 0.3)),
    2: accuracy((0.6, 0.7), ood=0.2, val=(0.3, 0.2)),
    3: accuracy((0.9, 0.9), ood=0.3, val=(0.2, 0.2)),
}


@pytest.mark.parametrize(("rule", "expected"), [("last", 3), ("best_first", 1), ("best_later", 2)])
def test_rules_and_ties(project: Project, rule: str, expected: int) -> None:
    project.declare(methods={"fedavg": None}, axes={"target": ["a"]})
    project.add("fedavg", TIED, sizes=(7, 21), target="a")
    collected = project.collect()
    assert choose(curves(collected), collected.keys, rule)["round"].tolist() == [expected]  # type: ignore[arg-type]


def test_round_0_counts(project: Project) -> None:
    project.declare(methods={"fedavg": None}, axes={"seed": [0]}, protocol="fdse")
    project.add("fedavg", {0: accuracy((0.5, 0.5)), 1: accuracy((0.3, 0.3))}, seed=0)
    assert selected(project.collect())["round"].tolist() == [0]


def test_all_weighs_by_training_size_and_avg_does_not(project: Project) -> None:
    project.declare(methods={"fedavg": None}, axes={"target": ["a"]})
    project.add("fedavg", {1: accuracy((0.4, 0.8), ood=0.25)}, sizes=(10, 30), target="a")
    row = selected(project.collect()).iloc[0]
    assert row["all"] == pytest.approx(70)
    assert row["avg"] == row["id"] == pytest.approx(60)
    assert row["ood"] == pytest.approx(25)


def test_validation_stands_in_where_there_is_no_test_split(project: Project) -> None:
    project.declare(methods={"fedavg": None}, axes={"seed": [0]})
    project.add("fedavg", {1: {(0, "val"): 0.3, (1, "val"): 0.5}}, test=0, seed=0)
    row = selected(project.collect()).iloc[0]
    assert row["id"] == pytest.approx(40)
    assert pd.isna(row["ood"])


def test_only_the_declared_model_and_stage_count(project: Project) -> None:
    project.declare(methods={"ditto": None}, axes={"target": ["a"]})
    others = [{"stage": "post_agg", "model": "global", "value": 0.0}, {"stage": "post_agg", "value": 0.0}]
    unseen = [{"client": -1, "split": "target", "stage": "post_agg", "model": "global", "value": 0.7}]
    project.add(
        "ditto",
        {1: accuracy((0.8, 0.8))},
        stage="post_train",
        model="personal",
        extra=[*others, *unseen],
        target="a",
    )
    row = selected(project.collect()).iloc[0]
    assert row["id"] == pytest.approx(80)
    assert row["ood"] == pytest.approx(70)


def test_several_models_on_the_held_out_domain_are_averaged(project: Project) -> None:
    project.declare(methods={"local": None}, axes={"target": ["a"]})
    unseen = [
        {"client": -1, "split": "target", "stage": "post_agg", "row": row, "value": value}
        for row, value in ((0, 0.2), (1, 0.6))
    ]
    project.add(
        "local", {1: accuracy((0.8, 0.8))}, stage="post_train", model="personal", extra=unseen, target="a"
    )
    assert selected(project.collect())["ood"].tolist() == [pytest.approx(40)]
