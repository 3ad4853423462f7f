"""The round that tables show, and the four accuracies of a run in it."""

import pandas as pd
import pytest

from fedshift.analysis.notes import notes
from fedshift.analysis.quantities import choose, curves, selected
from fedshift.analysis.tables import cells
from fedshift.common.errors import FedshiftError
from fedshift.experiments.schema import Table

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


@pytest.mark.parametrize(("rule", "expected"), [("best_first", 101), ("best_later", 500)])
def test_ties_of_many_rounds(rule: str, expected: int) -> None:
    """Five hundred rounds of three validation accuracies: of those with the highest the first, or the last."""
    rounds = pd.DataFrame({"seed": 0, "round": range(1, 501)})
    rounds["val"] = [60.0 + t % 3 if t >= 99 else 50.0 for t in rounds["round"]]
    (row,) = choose(rounds, ["seed"], rule).to_dict("records")  # type: ignore[arg-type]
    assert row["round"] == expected


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
    table = cells(project.workspace, collected, collected.experiment.tables["t"])
    means = {row["select"]: row["mean"] for row in table.to_dict("records") if row["metric"] == "id"}
    assert means == pytest.approx({"last": 22.5, "last_third": 21.25})
    assert "select = last_third: the mean over all evaluations from two thirds of the rounds on." in notes(
        collected
    )


def test_a_mean_over_rounds_is_of_all_of_them() -> None:
    """Statistics of archived runs may lack rounds, so a metric that is computed from them is NaN there."""
    lacking = pd.DataFrame({"seed": 0, "round": [1, 2, 3], "id": [1.0, 2.0, 3.0], "ece.id": [1.0, None, 3.0]})
    (row,) = choose(lacking, ["seed"], "last_third").to_dict("records")
    assert (row["round"], row["id"]) == (3, 2.5) and pd.isna(row["ece.id"])


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


def test_a_run_that_lacks_an_axis_of_another_has_its_accuracies(project: Project) -> None:
    project.declare(methods={"fedavg": None, "fedprox": {"axes": {"mu": [0.1]}}}, axes={"target": ["a"]})
    project.add("fedavg", {1: accuracy((0.4, 0.8), ood=0.2)}, sizes=(10, 30), target="a")
    project.add("fedprox", {1: accuracy((0.6, 0.2), ood=0.5)}, sizes=(10, 30), target="a", mu=0.1)
    rows = selected(project.collect()).set_index("method")
    assert rows["mu"].isna().to_dict() == {"fedavg": True, "fedprox": False}
    measured = rows[["id", "ood", "all", "avg", "val"]]
    assert measured.loc["fedavg"].tolist() == pytest.approx([60, 20, 70, 60, 70])
    assert measured.loc["fedprox"].tolist() == pytest.approx([40, 50, 30, 40, 30])


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
        {"client": -1, "split": "target", "stage": "post_agg", "member": row, "value": value}
        for row, value in ((0, 0.2), (1, 0.6))
    ]
    project.add(
        "local", {1: accuracy((0.8, 0.8))}, stage="post_train", model="personal", extra=unseen, target="a"
    )
    assert selected(project.collect())["ood"].tolist() == [pytest.approx(40)]


# Two held-out domains, `target: [a, b]`: client -1 is a, which is reported, client -2 is b. Validation is highest after round 1, b after
# rounds 2 and 3 alike, a (the oracle) after round 4.
TWO = {
    finished: {**accuracy((val,), ood=a), (-2, "target"): b}
    for finished, val, a, b in [
        (0, 0.1, 0.1, 0.1),
        (1, 0.9, 0.2, 0.3),
        (2, 0.8, 0.3, 0.6),
        (3, 0.7, 0.4, 0.6),
        (4, 0.6, 0.7, 0.5),
    ]
}


def two_held_out(project: Project, **tables: dict[str, object]) -> None:
    targets = [["a", "b"], ["a", "c"]]
    project.declare(methods={"fedavg": None}, axes={"target": targets, "seed": [0]}, tables=tables)
    project.add("fedavg", TWO, sizes=(10,), target="a", validation="b", seed=0)
    # held out with c, which has its best round, 0, where `a` is at 0.5
    other = {
        0: {**accuracy((0.2,), ood=0.5), (-2, "target"): 0.9},
        1: {**accuracy((0.3,), ood=0.6), (-2, "target"): 0.8},
    }
    project.add("fedavg", other, sizes=(10,), target="a", validation="c", seed=0)


def test_a_second_held_out_domain_chooses_the_round_and_is_not_reported(project: Project) -> None:
    two_held_out(project)
    collected = project.collect()
    assert collected.keys == ["method", "target", "seed", "validation"]
    for rule, rounds, reported in (
        ("held_out", [2, 0], [30, 50]),
        ("oracle", [4, 1], [70, 60]),
        ("best_first", [1, 1], [20, 60]),
        ("last", [4, 1], [70, 60]),
    ):
        chosen = selected(collected, rule).sort_values("validation")  # type: ignore[arg-type]
        assert chosen["round"].tolist() == rounds, rule
        assert chosen["ood"].tolist() == pytest.approx(reported), rule


def test_rules_stand_side_by_side_in_one_table(project: Project) -> None:
    declared = {"columns": ["target"], "metrics": ["ood"], "select": ["best_first", "held_out", "oracle"]}
    two_held_out(project, rules=declared)
    collected = project.collect()
    table = cells(project.workspace, collected, collected.experiment.tables["rules"])
    means = {row["select"]: row["mean"] for row in table.to_dict("records")}
    # the mean over both choosing domains of what is reported
    assert means == pytest.approx({"best_first": 40, "held_out": 40, "oracle": 65})
    below = "\n".join(notes(collected))
    assert "select = oracle: the round with the highest accuracy on the held-out domain itself" in below
    assert "select = held_out: " in below
    alone = cells(project.workspace, collected, Table(columns=["target"], metrics=["ood"]))
    assert "select" not in alone and alone["mean"].tolist() == pytest.approx([65])  # the last round


def test_rules_that_need_a_held_out_domain_say_so(project: Project) -> None:
    project.declare(methods={"fedavg": None}, axes={"target": ["a"]})
    project.add("fedavg", TIED, sizes=(7, 21), target="a")
    with pytest.raises(FedshiftError, match="'held_out' has no held-out domain to choose by"):
        selected(project.collect(), "held_out")


def test_oracle_takes_the_first_of_equal_rounds(project: Project) -> None:
    project.declare(methods={"fedavg": None}, axes={"target": ["a"]})
    project.add(
        "fedavg",
        {r: accuracy((0.5,), ood=ood) for r, ood in ((0, 0.1), (1, 0.4), (2, 0.4))},
        sizes=(10,),
        target="a",
    )
    assert selected(project.collect(), "oracle")["round"].tolist() == [1]
