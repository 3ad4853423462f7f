"""Clients without a test image: left out of means, counted in tables; never their validation accuracy."""

import json

import pandas as pd
import pytest

from fedshift.analysis.notes import notes
from fedshift.analysis.quantities import selected
from fedshift.analysis.tables import write
from fedshift.common.errors import FedshiftError
from fedshift.spec import RunSpec

from .conftest import Project, accuracy

VALIDATED = {(k, "val"): 0.9 for k in range(3)} | {(-1, "target"): 0.2}
SIZES = (10, 30, 5)


def declared(fractions: tuple[float, float, float] = (0.8, 0.1, 0.1), split: str = "random") -> RunSpec:
    return RunSpec.model_validate(
        {
            "data": {"dataset": "digits", "target": "a"},
            "partition": {"fractions": fractions, "split": split},
            "model": {"name": "digits_cnn"},
            "method": {"name": "fedavg"},
            "local": {"batch": 8, "lr": 0.1},
            "federation": {"rounds": 2},
        }
    )


@pytest.mark.parametrize(
    ("tested", "value", "count"), [({0: 0.3, 1: 0.5}, 40.0, "2 of 3"), ({}, None, "0 of 3")]
)
def test_a_table_has_the_mean_over_the_tested_clients_and_says_how_many(
    project: Project, tested: dict[int, float], value: float | None, count: str
) -> None:
    project.declare(
        methods={"fedavg": None, "fedprox": None},
        axes={"target": ["a"]},
        tables={"t": {"metrics": ["id", "ood", "pooled", "gain.id"], "against": "fedprox"}},
    )
    few = VALIDATED | {(k, "test"): accuracy for k, accuracy in tested.items()}
    project.add("fedavg", {1: few}, sizes=SIZES, test=4 if tested else 0, target="a")
    project.add("fedprox", {1: accuracy((0.1, 0.2, 0.3), ood=0.2)}, sizes=SIZES, target="a")
    collected = project.collect()
    stem = write(project.workspace, collected)
    table = pd.read_csv(stem.with_name("t.csv"), keep_default_na=False).set_index(["method", "metric"])
    assert table.loc["fedavg", "clients"].to_dict() == {
        "id": count,
        "ood": "",
        "pooled": count,
        "gain.id": count,
    }
    assert set(table.loc["fedprox", "clients"]) == {""}
    shown = f"{value:.1f}" if value is not None else "missing"
    page = stem.with_suffix(".md").read_text()
    assert f"| {shown}¶ |" in page.replace("  ", "") and f"{count} (fedavg)" in page


def test_a_table_of_all_clients_has_no_such_column(project: Project) -> None:
    project.declare(methods={"fedavg": None}, axes={"target": ["a"]}, tables={"t": {"metrics": ["id"]}})
    project.add("fedavg", {1: accuracy((0.1, 0.2), ood=0.2)}, target="a")
    stem = write(project.workspace, project.collect())
    assert "clients" not in pd.read_csv(stem.with_name("t.csv"))
    assert "¶" not in stem.with_suffix(".md").read_text()


def test_a_partition_without_a_test_part_measures_id_on_validation_and_the_note_says_so(
    project: Project,
) -> None:
    project.declare(methods={"fedavg": None}, axes={"target": ["a"]}, tables={"t": {"metrics": ["id"]}})
    project.add("fedavg", {1: VALIDATED}, sizes=SIZES, test=0, spec=declared((0.9, 0.1, 0.0)), target="a")
    collected = project.collect()
    assert selected(collected)["id"].tolist() == pytest.approx([90])
    assert any("validation images" in note and note.startswith("id") for note in notes(collected))


@pytest.mark.parametrize(("test", "value"), [(0, 90.0), (4, float("nan"))])
def test_official_lists_without_a_test_part_are_known_by_their_images(
    project: Project, test: int, value: float
) -> None:
    project.declare(methods={"fedavg": None}, axes={"target": ["a"]})
    project.add("fedavg", {1: VALIDATED}, sizes=SIZES, test=test, spec=declared(split="official"), target="a")
    assert selected(project.collect())["id"].tolist() == pytest.approx([value], nan_ok=True)


def test_no_round_is_best_where_nothing_was_validated(project: Project) -> None:
    project.declare(methods={"fedavg": None}, axes={"target": ["a"]})
    unvalidated = {(0, "test"): 0.1, (1, "test"): 0.2, (-1, "target"): 0.3}
    project.add("fedavg", {0: unvalidated, 1: unvalidated}, target="a")
    collected = project.collect()
    assert selected(collected, "last")["round"].tolist() == [1]
    with pytest.raises(FedshiftError, match="validation"):
        selected(collected, "best_first")


def test_a_class_that_a_domain_lacks_is_noted(project: Project) -> None:
    project.declare(methods={"fedavg": None}, axes={"target": ["a", "b"]})
    for target in "ab":
        folder = project.add("fedavg", {1: accuracy((0.1, 0.2), ood=0.2)}, target=target)
        summary = json.loads((folder / "summary.json").read_text())
        many = [f"class{number}" for number in range(50)]
        summary["absent"] = {"Rural": ["effusion"], "Coast": many}
        (folder / "summary.json").write_text(json.dumps(summary))
    (note,) = [line for line in notes(project.collect()) if "Rural" in line]
    assert "Rural (effusion)" in note and "class0" in note and "class49" not in note and "40 more" in note
