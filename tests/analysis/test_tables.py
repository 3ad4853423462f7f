"""Cells of tables: exact means and spreads, their order, means over fewer values, marks."""

import itertools
import math
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from fedshift.analysis import tables
from fedshift.analysis.cells import by_cell, marked
from fedshift.analysis.collected import ARCHIVE, Collected
from fedshift.analysis.notes import notes
from fedshift.analysis.page import blocks, csv
from fedshift.analysis.published import AVERAGE
from fedshift.common.errors import FedshiftError

from .conftest import Project, accuracy, changed

VALUES = {("a", 0): (0.50, 0.30), ("a", 1): (0.60, 0.40), ("b", 0): (0.70, 0.20), ("b", 1): (0.90, 0.10)}


def two_by_two(project: Project, missing: tuple[str, int] | None = None, **declared: Any) -> Collected:
    """FedAvg on two targets and two seeds."""
    values = {
        ("fedavg", *place): None if place == missing else {1: accuracy((own, own), ood)}
        for place, (own, ood) in VALUES.items()
    }
    return project.trained(values, tables={"t": {}}, **declared)


def test_seeds_are_averaged_last(project: Project) -> None:
    """Seed 0: the mean of 50 and 70; seed 1: of 60 and 90."""
    collected = two_by_two(project)
    cells = project.shown(collected).set_index("metric")
    assert cells["mean"].to_dict() == pytest.approx({"id": 67.5, "ood": 25.0})
    assert cells["std"].to_dict() == pytest.approx({"id": 15 / math.sqrt(2), "ood": 0.0})
    assert cells["seeds"].tolist() == cells["planned"].tolist() == [2, 2]
    cells = project.shown(collected, columns=["target"], metrics=["id"])
    assert list(cells["target"]) == ["a", "b", "Average"]
    assert cells["mean"].tolist() == pytest.approx([55, 80, 67.5])
    assert cells["std"].tolist() == pytest.approx([10 / math.sqrt(2), 20 / math.sqrt(2), 15 / math.sqrt(2)])
    with pytest.raises(FedshiftError, match=r"unknown axis 'targt'(.|\n)*Did you mean 'target'"):
        project.shown(collected, columns=["targt"])


def test_the_average_is_over_held_out_domains(project: Project) -> None:
    project.declare(methods={"fedavg": None}, axes={"target": [None, "a", "b"]}, tables={"t": {}})
    for target, ood in (("none", None), ("a", 0.2), ("b", 0.4)):
        project.add("fedavg", {1: accuracy((0.5, 0.5), ood=ood)}, target=target)
    cells = project.shown(project.collect(), columns=["target"], metrics=["ood"])
    means = dict(zip(cells["target"], cells["mean"], strict=True))
    assert means == pytest.approx({"none": math.nan, "a": 20, "b": 40, "Average": 30}, nan_ok=True)


def test_a_seed_that_lacks_a_run_is_left_out_and_marked(project: Project) -> None:
    collected = two_by_two(project, missing=("b", 1))
    cells = project.shown(collected, columns=["target"], metrics=["id"])
    assert cells["seeds"].tolist() == [2, 1, 1]
    assert cells["mean"].tolist() == pytest.approx([55, 70, 60])
    assert cells["std"].isna().tolist() == [False, True, True]
    text = project.page(collected)
    assert "60.0 (1/2)" in text and "1 of 4 runs are not finished" in text


# ---- means over fewer values than beside them

USES = [
    {"method": method, "d": d, "target": target, "seed": 0}
    for method, d, target in [
        *(("fedavg", d, target) for d in (1, 2) for target in ("a", "b")),
        ("central", 2, "a"),
        ("central", 2, "b"),
        ("local", 1, "a"),
        ("local", 2, "b"),
    ]
]
BY_D = {("local", 1): "target a of a, b", ("local", 2): "target b of a, b"}


@pytest.mark.parametrize(
    ("columns", "found"),
    [
        (["d"], BY_D),
        ([], {("central",): "d 2 of 1, 2", ("local",): "not all combinations of d and target and seed"}),
        (["target", "d"], {(method, AVERAGE, d): said for (method, d), said in BY_D.items()}),
    ],
)
def test_means_over_fewer_values_are_found(columns: list[str], found: dict[tuple[Any, ...], str]) -> None:
    """A row that lacks a column is whole in the others; the average over targets is a cell of its own."""
    runs = pd.DataFrame(USES, dtype=object)
    assert marked(by_cell(runs, columns), columns, [*runs.columns.drop("method")]) == found


def test_a_mean_over_fewer_values_than_beside_it_is_marked(project: Project) -> None:
    """FedAvg over local epochs 1 and 2, FedProx over 2 alone; more epochs are better by 20 points."""
    rows = [("fedavg", 1), ("fedavg", 2), ("fedprox", 2)]
    collected = project.trained(
        {(method, n, target, 0): 0.4 + 0.2 * n for target in ("plain", "ink") for method, n in rows},
        ("epochs", "target", "seed"),
        axes={"epochs": {"key": "local.epochs", "values": [1, 2]}, "target": ["plain", "ink"], "seed": [0]},
        only={"fedprox": {"epochs": [2]}},
        tables={"targets": {"columns": ["target"], "metrics": ["ood"]}, "all": {"metrics": ["ood"]}},
    )
    for name, columns in (("targets", 3), ("all", 1)):
        cells = project.shown(collected, name)
        assert cells["mean"].tolist() == pytest.approx([70] * columns + [80] * columns)
        assert cells["fewer"].tolist() == [""] * columns + ["epochs 2 of 1, 2"] * columns
    text = project.page(collected)
    assert "80.0†" in text and "70.0†" not in text
    assert "† A mean over fewer values than others in its column: epochs 2 of 1, 2 (fedprox)." in text


# ---- runs of the archive


@pytest.mark.parametrize("archived", ["a", "b"])
def test_a_cell_counts_the_archived_runs_of_its_own_place(project: Project, archived: str) -> None:
    collected = two_by_two(project)
    collected.runs.loc[collected.runs["target"] == archived, "source"] = ARCHIVE
    cells = project.shown(collected, columns=["target"], metrics=["ood"]).set_index("target")
    assert cells["archived"].to_dict() == {"a": 0, "b": 0, "Average": 2} | {archived: 2}


def test_what_is_missing_has_no_mark(project: Project) -> None:
    """An average over two targets, of which one is archived and the other was not run."""
    collected = project.trained({("fedavg", "a", 0): 0.3, ("fedavg", "b", 0): None}, tables={"t": {}})
    collected.runs.loc[collected.runs["target"] == "a", "source"] = ARCHIVE
    cells = project.shown(collected, columns=["target"], metrics=["ood"])
    ((_, (grid,)),) = blocks([("t", cells)])
    assert grid.rows[0][1]["ours"] == ["30.0§", "missing", "missing"]


# ---- clients without a test image: left out of means and counted, never their validation accuracy

SIZES = (10, 30, 5)
VALIDATED = {(k, "val"): 0.9 for k in range(3)} | {(-1, "target"): 0.2}


@pytest.mark.parametrize(
    ("tested", "shown", "count"), [({0: 0.3, 1: 0.5}, "40.0", "2 of 3"), ({}, "missing", "0 of 3")]
)
def test_a_table_has_the_mean_over_the_tested_clients_and_says_how_many(
    project: Project, tested: dict[int, float], shown: str, count: str
) -> None:
    table = {"metrics": ["id", "ood", "pooled", "gain.id"], "against": "fedprox"}
    project.declare(methods={"fedavg": None, "fedprox": None}, axes={"target": ["a"]}, tables={"t": table})
    few = VALIDATED | {(k, "test"): accuracy for k, accuracy in tested.items()}
    project.add("fedavg", {1: few}, sizes=SIZES, test=4 if tested else 0, target="a")
    project.add("fedprox", {1: accuracy((0.1, 0.2, 0.3), ood=0.2)}, sizes=SIZES, target="a")
    stem = tables.write(project.workspace, project.collect())
    table_ = pd.read_csv(stem.with_name("t.csv"), keep_default_na=False).set_index(["method", "metric"])
    counted = {"id": count, "ood": "", "pooled": count, "gain.id": count}
    assert table_.loc["fedavg", "clients"].to_dict() == counted
    assert set(table_.loc["fedprox", "clients"]) == {""}
    page = stem.with_suffix(".md").read_text()
    assert f"| {shown}¶ |" in page.replace("  ", "") and f"{count} (fedavg)" in page


# ---- notes below tables that no archived run has: mixed images, changed code, classes that a domain lacks

HALF = {1: accuracy((0.5, 0.5))}
ROWS = [*itertools.product(("fedavg", "fedbn"), (0, 1))]


def two_rows(project: Project, **second: Any) -> list[Path]:
    """FedAvg and FedBN with two seeds each; second: what is particular to FedBN's second seed."""
    project.declare(methods={"fedavg": None, "fedbn": None}, axes={"seed": [0, 1]}, tables={"t": {}})
    return [
        project.add(row, HALF, seed=seed, **(second if (row, seed) == ROWS[-1] else {})) for row, seed in ROWS
    ]


def noted(project: Project, words: str) -> str:
    (line,) = (line for line in notes(project.collect()) if words in line)
    return line


def test_images_in_several_states_are_told_by_method(project: Project) -> None:
    two_rows(project, images="0ther5")
    assert noted(project, "Mixed images").endswith(": 1ma9e5 (fedavg, fedbn); 0ther5 (fedbn).")


def test_runs_of_a_changed_method_are_named_and_counted(project: Project) -> None:
    """Of two of FedAvg one was trained by an earlier version, which did not record its code."""
    _, earlier, *_ = two_rows(project)
    told = "".join(notes(project.collect()))
    assert "has changed" not in told and "Mixed images" not in told
    changed(earlier, method_code=None)
    project.runs[:2] = [run._replace(code="0ther001") for run in project.runs[:2]]
    line = noted(project, "has changed")
    said = "The file of the method or model has changed since 1 of 4 runs were trained: fedavg (1)."
    assert line.startswith(said) and "fedshift plan --retrain-changed" in line


def test_a_class_that_a_domain_lacks_is_noted(project: Project) -> None:
    many = [f"class{number}" for number in range(50)]
    for run in two_rows(project):
        changed(run, absent={"Rural": ["effusion"], "Coast": many})
    note = noted(project, "Rural")
    assert "Rural (effusion)" in note and "class0" in note and "class49" not in note and "40 more" in note


def test_small_numbers_of_a_csv_keep_their_digits() -> None:
    """A weight decay is not 0; a rounding error is."""
    assert (
        csv(pd.DataFrame({"x": [12.34567, 1e-5, -1e-5, 1e-12, 0.0]}))
        == "x\n12.3457\n1e-05\n-1e-05\n0.0000\n0.0000\n"
    )


def test_comparisons_of_an_earlier_version_do_not_stay(project: Project) -> None:
    values = {(method, "ink", 0): 0.5 for method in ("fedavg", "fedbn")}
    one = {"h": {"text": "FedBN is above FedAvg.", "compare": "fedbn > fedavg"}}
    tables.write(project.workspace, project.trained(values, tables={"t": {}}, hypotheses=one))
    file = project.workspace.tables(project.name) / "hypotheses.csv"
    assert file.is_file()
    axes = {"target": ["ink"], "seed": [0]}
    project.declare(methods=dict.fromkeys(("fedavg", "fedbn")), axes=axes, tables={"t": {}})
    tables.write(project.workspace, project.collect())
    assert not file.exists()


def test_names_that_look_like_numbers_or_nothing_stay_text(tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text("method,target,mean\nNone,NA,1.5\nb,01,\n")
    found = tables.long(tmp_path / "table")
    assert found["target"].tolist() == ["NA", "01"] and found["method"].tolist() == ["None", "b"]
    assert found["mean"].isna().tolist() == [False, True]
