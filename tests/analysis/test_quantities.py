"""The round that tables show, and the accuracies of a run in it."""

from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from fedshift.analysis import collect
from fedshift.analysis.metrics.ece import ECE
from fedshift.analysis.notes import notes
from fedshift.analysis.quantities import PLACE, by_round, choose, curves, reported_values, selected
from fedshift.common.errors import FedshiftError

from .conftest import Project, accuracy, counted

# Validation ALL with sizes 7 and 21: 0.1, 0.225, 0.225, 0.2. Rounds 1 and 2 tie; in floating point the second is larger by one bit.
# Held out, which `oracle` looks at, rounds 2 and 3 tie.
TIED = {
    0: accuracy((0.0, 0.0), ood=0.0, val=(0.1, 0.1)),
    1: accuracy((0.4, 0.8), ood=0.1, val=(0.0, 0.3)),
    2: accuracy((0.6, 0.7), ood=0.3, val=(0.3, 0.2)),
    3: accuracy((0.9, 0.9), ood=0.3, val=(0.2, 0.2)),
}


def one_run(project: Project, rounds: Any, **about: Any) -> Any:
    """FedAvg with `a` held out, collected."""
    declared = {"methods": {"fedavg": None}, "axes": {"target": ["a"]}, "tables": {"t": {"metrics": ["id"]}}}
    project.declare(**declared, protocol=about.pop("protocol", "digits"))
    project.add("fedavg", rounds, target="a", **about)
    return project.collect()


def test_rules_and_ties(project: Project) -> None:
    collected = one_run(project, TIED, sizes=(7, 21))
    for rule, expected in (("last", 3), ("best_first", 1), ("best_later", 2), ("oracle", 2)):
        assert selected(collected, rule)["round"].tolist() == [expected], rule
    with pytest.raises(FedshiftError, match="'held_out' has no held-out domain to choose by"):
        selected(collected, "held_out")


@pytest.mark.parametrize(("rule", "expected"), [("best_first", 101), ("best_later", 500)])
def test_ties_of_many_rounds(rule: str, expected: int) -> None:
    """Five hundred rounds of three validation accuracies: of those with the highest the first, or the last."""
    rounds = pd.DataFrame({"seed": 0, "round": range(1, 501)})
    rounds["val"] = [60.0 + t % 3 if t >= 99 else 50.0 for t in rounds["round"]]
    (row,) = choose(rounds, ["seed"], rule).to_dict("records")
    assert row["round"] == expected


def test_round_0_counts(project: Project) -> None:
    rounds = {0: accuracy((0.5, 0.5)), 1: accuracy((0.3, 0.3))}
    assert selected(one_run(project, rounds, protocol="fdse"))["round"].tolist() == [0]


def test_no_round_is_best_where_nothing_was_validated(project: Project) -> None:
    unvalidated = {(0, "test"): 0.1, (1, "test"): 0.2, (-1, "target"): 0.3}
    collected = one_run(project, {0: unvalidated, 1: unvalidated})
    assert selected(collected, "last")["round"].tolist() == [1]
    with pytest.raises(FedshiftError, match="validation"):
        selected(collected, "best_first")


def test_the_last_third_is_averaged(project: Project) -> None:
    """Of 7 rounds those from 14/3 on; three evaluations of the second run, whose last is at 0.9."""
    project.declare(
        methods={"fedavg": None},
        axes={"target": ["a", "b"]},
        tables={"t": {"select": ["last", "last_third"]}},
    )
    project.add("fedavg", {r: accuracy((r / 10, 0.0), ood=r / 20) for r in (0, 2, 4, 6, 7)}, target="a")
    project.add("fedavg", {r: accuracy((0.9, 0.9)) for r in (0, 3)} | {6: accuracy((0.1, 0.1))}, target="b")
    collected = project.collect()
    chosen = selected(collected, "last_third")
    assert chosen["round"].tolist() == [7, 6]
    assert chosen["id"].tolist() == pytest.approx([32.5, 10])
    assert chosen["ood"].tolist() == pytest.approx([32.5, float("nan")], nan_ok=True)
    cells = project.shown(collected)
    means = {row["select"]: row["mean"] for row in cells.to_dict("records") if row["metric"] == "id"}
    assert means == pytest.approx({"last": 22.5, "last_third": 21.25})


def test_a_mean_over_rounds_is_of_all_of_them() -> None:
    """Statistics of archived runs may lack rounds, so a metric that is computed from them is NaN there."""
    lacking = pd.DataFrame({"seed": 0, "round": [1, 2, 3], "id": [1.0, 2.0, 3.0], "ece.id": [1.0, None, 3.0]})
    (row,) = choose(lacking, ["seed"], "last_third").to_dict("records")
    assert (row["round"], row["id"]) == (3, 2.5) and pd.isna(row["ece.id"])


def test_all_weighs_by_training_size_and_avg_does_not(project: Project) -> None:
    """Also of a run that has an axis which others lack."""
    project.declare(methods={"fedavg": None, "fedprox": {"axes": {"mu": [0.1]}}}, axes={"target": ["a"]})
    project.add("fedavg", {1: accuracy((0.4, 0.8), ood=0.2)}, sizes=(10, 30), target="a")
    project.add("fedprox", {1: accuracy((0.6, 0.2), ood=0.5)}, sizes=(10, 30), target="a", mu=0.1)
    rows = selected(project.collect()).set_index("method")
    assert rows["mu"].isna().to_dict() == {"fedavg": True, "fedprox": False}
    measured = rows[["id", "ood", "all", "avg", "val"]]
    assert measured.loc["fedavg"].tolist() == pytest.approx([60, 20, 70, 60, 70])
    assert measured.loc["fedprox"].tolist() == pytest.approx([40, 50, 30, 40, 30])


def test_only_the_declared_model_and_stage_count_and_several_on_the_held_out_domain_are_averaged(
    project: Project,
) -> None:
    others = [{"stage": "post_agg", "model": "global", "value": 0.0}, {"stage": "post_agg", "value": 0.0}]
    target = {"client": -1, "split": "target", "stage": "post_agg"}
    unseen = [{**target, "member": member, "value": value} for member, value in ((0, 0.2), (1, 0.6))]
    own = {"stage": "post_train", "model": "personal", "extra": [*others, *unseen]}
    row = selected(one_run(project, {1: accuracy((0.8, 0.8))}, method="ditto", **own)).iloc[0]
    assert (row["id"], row["ood"]) == (pytest.approx(80), pytest.approx(40))


# ---- clients without a test image


@pytest.mark.parametrize(
    ("partition", "test", "value"),
    [
        ({"fractions": (0.9, 0.1, 0.0)}, 0, 90.0),  # validation, and the note says so
        ({"split": "official"}, 0, 90.0),  # as its images show
        ({"split": "official"}, 4, float("nan")),
    ],
)
def test_id_is_of_validation_only_where_there_is_no_test_part(
    project: Project, partition: dict[str, Any], test: int, value: float
) -> None:
    spec = project.spec({"target": "a"}, partition=partition)
    validated = {1: {**accuracy((), ood=0.2), **{(k, "val"): 0.9 for k in range(3)}}}
    collected = one_run(project, validated, sizes=(10, 30, 5), test=test, spec=spec)
    assert selected(collected)["id"].tolist() == pytest.approx([value], nan_ok=True)
    said = [note for note in notes(collected) if note.startswith("id") and "validation images" in note]
    assert bool(said) == (test == 0)


# ---- two held-out domains, `target: [a, b]`: client -1 is a, which is reported, client -2 is b

# Validation is highest after round 1, b after rounds 2 and 3 alike, a (the oracle) after round 4.
WITH_B = {
    finished: {**accuracy((val,), ood=a), (-2, "target"): b}
    for finished, val, a, b in [
        (0, 0.1, 0.1, 0.1), (1, 0.9, 0.2, 0.3), (2, 0.8, 0.3, 0.6), (3, 0.7, 0.4, 0.6), (4, 0.6, 0.7, 0.5),
    ]
}  # fmt: skip
# c has its best round, 0, where a is at 0.5.
WITH_C = {
    finished: {**accuracy((val,), ood=a), (-2, "target"): c}
    for finished, val, a, c in [(0, 0.2, 0.5, 0.9), (1, 0.3, 0.6, 0.8)]
}


def test_a_second_held_out_domain_chooses_the_round_and_is_not_reported(project: Project) -> None:
    table = {"columns": ["target"], "metrics": ["ood"], "select": ["best_first", "held_out", "oracle"]}
    axes = {"target": [["a", "b"], ["a", "c"]], "seed": [0]}
    project.declare(methods={"fedavg": None}, axes=axes, tables={"t": table})
    for other, rounds in (("b", WITH_B), ("c", WITH_C)):
        project.add("fedavg", rounds, sizes=(10,), target="a", validation=other, seed=0)
    collected = project.collect()
    assert collected.keys == ["method", "target", "seed", "validation"]
    for rule, chosen, reported in (
        ("held_out", [2, 0], [30, 50]),
        ("oracle", [4, 1], [70, 60]),
        ("best_first", [1, 1], [20, 60]),
        ("last", [4, 1], [70, 60]),
    ):
        found = selected(collected, rule).sort_values("validation")
        assert found["round"].tolist() == chosen, rule
        assert found["ood"].tolist() == pytest.approx(reported), rule
    means = {row["select"]: row["mean"] for row in project.shown(collected).to_dict("records")}
    assert means == pytest.approx({"best_first": 40, "held_out": 40, "oracle": 65})  # over both that choose
    below = "\n".join(notes(collected))
    assert "select = oracle: the round with the highest accuracy on the held-out domain itself" in below
    alone = project.shown(collected, select=())
    assert "select" not in alone and alone["mean"].tolist() == pytest.approx([65])  # the last round


# ---- collected files are read some runs at a time, and no run in two pieces


@pytest.mark.parametrize(("rows", "runs"), [(1, [1] * 6), (31, [3, 3]), (50, [4, 2]), (1000, [6])])
def test_the_cut_of_the_file_changes_nothing(
    project: Project, rows: int, runs: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Six runs of three rounds, with 30 records and 15 sets each."""
    seeds, quantities = 6, ["ece.ood", "ece.id", "loss.worst"]
    project.declare(methods={"fedavg": None}, axes={"seed": [*range(seeds)]})
    for seed in range(seeds):
        rounds = {r: accuracy((0.1 * r, 0.05 * seed), ood=0.01 * (r + seed)) for r in range(3)}
        project.add("fedavg", rounds, seed=seed, statistics=counted(15, seed=seed))
    whole = curves(project.collect(), quantities)
    monkeypatch.setattr(collect, "ROWS_A_GROUP", rows)
    collected = project.collect()
    pd.testing.assert_frame_equal(curves(collected, quantities), whole)
    assert [part[PLACE].nunique() for part in reported_values(collected, ECE)] == runs


def test_curves_have_keys_rounds_and_quantities_alone(project: Project) -> None:
    frame = curves(one_run(project, TIED, sizes=(7, 21)))
    assert [*frame.columns[:4]] == ["method", "target", PLACE, "round"]
    assert {*frame.columns[4:]} == {"id", "all", "avg", "ood", "val", "held_out"}


def test_a_computed_metric_without_statistics_has_no_rounds(project: Project) -> None:
    found = by_round(pa.table({}), {"scheme": "domain", "params": {}}, "ece")
    assert found.empty and [*found.columns] == ["id", "ood", "held_out"]
