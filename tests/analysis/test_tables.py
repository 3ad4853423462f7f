"""Cells of tables: exact means and spreads, gaps, order, and means over fewer values."""

import math
import re
from typing import Any

import pandas as pd
import pytest

from fedshift.analysis import tables
from fedshift.analysis.collected import Collected
from fedshift.common.errors import FedshiftError
from fedshift.experiments.load import load

from .conftest import Project, accuracy, domains_per_client

VALUES = {("a", 0): (0.50, 0.30), ("a", 1): (0.60, 0.40), ("b", 0): (0.70, 0.20), ("b", 1): (0.90, 0.10)}


def targets_and_seeds(project: Project, missing: tuple[str, int] | None = None, **keys: Any) -> Collected:
    project.declare(
        methods={"fedavg": None}, axes={"target": ["a", "b"], "seed": [0, 1]}, tables={"t": {}}, **keys
    )
    for (target, seed), (own, ood) in VALUES.items():
        value = None if (target, seed) == missing else {1: accuracy((own, own), ood=ood)}
        project.add("fedavg", value, target=target, seed=seed)
    return project.collect()


def build(project: Project, collected: Collected, **table: Any) -> pd.DataFrame:
    spec = load(project.workspace, "toy").tables["t"].model_copy(update=table)
    return tables.cells(project.workspace, collected, spec)


def test_seeds_are_averaged_last(project: Project) -> None:
    cells = build(project, targets_and_seeds(project)).set_index("metric")
    # Seed 0: mean of 50 and 70; seed 1: mean of 60 and 90.
    assert cells["mean"].to_dict() == pytest.approx({"id": 67.5, "ood": 25.0})
    assert cells["std"].to_dict() == pytest.approx({"id": 15 / math.sqrt(2), "ood": 0.0})
    assert cells["seeds"].tolist() == cells["planned"].tolist() == [2, 2]


def test_the_protocol_gives_the_spread(project: Project) -> None:
    cells = build(project, targets_and_seeds(project, protocol="fdse"), metrics=["id"])
    assert cells["std"].tolist() == [pytest.approx(7.5)]


def test_a_target_column_brings_its_average(project: Project) -> None:
    cells = build(project, targets_and_seeds(project), columns=["target"], metrics=["id"])
    assert list(cells["target"]) == ["a", "b", "Average"]
    assert cells["mean"].tolist() == pytest.approx([55, 80, 67.5])
    assert cells["std"].tolist() == pytest.approx([10 / math.sqrt(2), 20 / math.sqrt(2), 15 / math.sqrt(2)])


def test_the_average_is_over_held_out_domains(project: Project) -> None:
    project.declare(methods={"fedavg": None}, axes={"target": [None, "a", "b"]}, tables={"t": {}})
    for target, ood in (("none", None), ("a", 0.2), ("b", 0.4)):
        project.add("fedavg", {1: accuracy((0.5, 0.5), ood=ood)}, target=target)
    cells = build(project, project.collect(), columns=["target"], metrics=["ood"])
    assert dict(zip(cells["target"], cells["mean"], strict=True)) == pytest.approx(
        {"none": math.nan, "a": 20, "b": 40, "Average": 30}, nan_ok=True
    )


def test_a_seed_that_lacks_a_run_is_left_out_and_marked(project: Project) -> None:
    collected = targets_and_seeds(project, missing=("b", 1))
    cells = build(project, collected, columns=["target"], metrics=["id"])
    assert cells["seeds"].tolist() == [2, 1, 1]
    assert cells["mean"].tolist() == pytest.approx([55, 70, 60])
    assert cells["std"].isna().tolist() == [False, True, True]
    text = tables.write(project.workspace, collected).with_suffix(".md").read_text()
    assert "60.0 (1/2)" in text
    assert "1 of 4 runs are not finished" in text


def test_a_cell_without_runs_says_missing(project: Project) -> None:
    methods = {"fedavg": None, "local": None}
    project.declare(methods=methods, axes={"seed": [0]}, tables={"t": {"metrics": ["id"]}})
    project.add("fedavg", None, seed=0)
    project.add("local", {0: accuracy((0.5, 0.5))}, seed=0)
    text = tables.write(project.workspace, project.collect()).with_suffix(".md").read_text()
    assert re.search(r"\| fedavg \| missing \|", text)


def test_tables_without_titles_keep_apart(project: Project) -> None:
    project.declare(
        methods={"fedavg": None}, axes={"seed": [0]}, tables={"one": {}, "two": {"metrics": ["all"]}}
    )
    project.add("fedavg", {0: accuracy((0.5, 0.5))}, seed=0)
    page = tables.write(project.workspace, project.collect()).with_suffix(".md").read_text()
    assert re.findall("## (.*)", page) == ["one", "two"]


def test_a_misspelled_column_is_named(project: Project) -> None:
    with pytest.raises(FedshiftError, match=r"unknown axis 'targt'(.|\n)*Did you mean 'target'"):
        build(project, targets_and_seeds(project), columns=["targt"])


def test_methods_keep_the_order_of_the_file(project: Project) -> None:
    project.declare(
        methods={"scaffold": None, "central": None, "fedavg": None},
        axes={"seed": [0]},
        tables={"t": {"metrics": ["id"]}},
    )
    for method in ("scaffold", "central", "fedavg"):
        project.add(method, {0: accuracy((0.5, 0.5))}, seed=0)
    assert list(build(project, project.collect())["method"]) == ["scaffold", "central", "fedavg"]


SPLIT = {"targets": {"columns": ["target"], "metrics": ["ood"]}, "all": {"metrics": ["ood"]}}


def uneven(project: Project) -> Collected:
    """FedAvg over local epochs 1 and 2, FedProx over 2 alone; more epochs are better by 20 points."""
    project.declare(
        methods={"fedavg": None, "fedprox": None},
        axes={"epochs": {"key": "local.epochs", "values": [1, 2]}, "target": ["plain", "ink"], "seed": [0]},
        only={"fedprox": {"epochs": [2]}},
        tables=SPLIT,
    )
    for target in ("plain", "ink"):
        for method, epochs in (("fedavg", 1), ("fedavg", 2), ("fedprox", 2)):
            project.add(
                method,
                {1: accuracy((0.5, 0.5), ood=0.4 + 0.2 * epochs)},
                epochs=epochs,
                target=target,
                seed=0,
            )
    return project.collect()


def test_a_mean_over_fewer_values_than_beside_it_is_marked(project: Project) -> None:
    collected = uneven(project)
    for name, columns in (("targets", ["plain", "ink", "Average"]), ("all", [""])):
        cells = tables.cells(project.workspace, collected, collected.experiment.tables[name])
        assert cells["mean"].tolist() == pytest.approx([70] * len(columns) + [80] * len(columns))
        assert (cells["fewer"] == "").tolist() == [True] * len(columns) + [False] * len(columns)
        assert set(cells["fewer"]) - {""} == {"epochs 2 of 1, 2"}
    stem = tables.write(project.workspace, collected)
    text = stem.with_suffix(".md").read_text()
    assert "80.0†" in text and "70.0†" not in text
    assert "† A mean over fewer values than others in its column: epochs 2 of 1, 2 (fedprox)." in text
    assert pd.read_csv(stem.with_name("all.csv"))["fewer"].tolist()[1] == "epochs 2 of 1, 2"


def test_the_average_over_fewer_domains_is_marked_too(project: Project) -> None:
    project.declare(
        methods={"fedavg": None, "fedprox": None},
        axes={"target": ["plain", "ink"], "seed": [0]},
        only={"fedprox": {"target": ["ink"]}},
        tables={"t": {"columns": ["target"], "metrics": ["ood"]}},
    )
    for method, target in (("fedavg", "plain"), ("fedavg", "ink"), ("fedprox", "ink")):
        project.add(method, {1: accuracy((0.5, 0.5), ood=0.4)}, target=target, seed=0)
    cells = build(project, project.collect()).set_index(["method", "target"])
    assert cells.loc[("fedprox", "Average"), "fewer"] == "target ink of ink, plain"
    assert (cells["fewer"] == "").sum() == 4


def test_columns_come_in_the_order_of_the_file(project: Project) -> None:
    """A first row that has the last value alone brought it to the front: hFedF's Table 2 had d = 3, 1, 2."""
    project.declare(
        methods={"central": None, "fedavg": None},
        axes={"d": domains_per_client(2, 3, 1), "target": "all", "seed": [0]},
        only={"central": {"d": [1], "target": ["outline"]}},
        tables={"t": {"columns": ["d", "target"], "metrics": ["ood"]}},
        spec={"partition": {"scheme": "domains_per_client"}},
    )
    cells = build(project, project.add_all({1: accuracy((0.5, 0.5), ood=0.4)}))
    domains = ["plain", "ink", "texture", "outline", "Average"]
    assert [*cells["d"].cat.categories] == [2, 3, 1]
    assert [*cells["target"].cat.categories] == domains
    text = tables.write(project.workspace, project.collect()).with_suffix(".md").read_text()
    assert re.findall(r"\*\*d = (\d)\*\*", text) == ["2", "3", "1"]
