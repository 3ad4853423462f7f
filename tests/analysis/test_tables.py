"""Cells of tables: exact means and spreads, gaps, and the published values beside them."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from fedshift.analysis import published, tables
from fedshift.analysis.collected import Collected
from fedshift.analysis.notes import notes
from fedshift.errors import FedshiftError
from fedshift.experiments.expand import expand
from fedshift.experiments.load import load
from fedshift.experiments.schema import Experiment
from fedshift.workspace import Workspace

from .conftest import REFERENCE, Project, accuracy

ROOT = REFERENCE.parent
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
    project.declare(methods={"fedavg": None}, axes={"seed": [0]}, tables={"t": {"metrics": ["id"]}})
    project.add("fedavg", None, seed=0)
    text = tables.write(project.workspace, project.collect()).with_suffix(".md").read_text()
    assert re.search(r"\| fedavg \| missing \|", text)


def test_tables_without_titles_keep_apart(project: Project) -> None:
    project.declare(
        methods={"fedavg": None}, axes={"seed": [0]}, tables={"one": {}, "two": {"metrics": ["all"]}}
    )
    project.add("fedavg", {0: accuracy((0.5, 0.5))}, seed=0)
    page = tables.write(project.workspace, project.collect()).with_suffix(".html").read_text()
    assert re.findall("<h2>(.*)</h2>", page) == ["one", "two", "Notes"]


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


@pytest.mark.parametrize(
    ("name", "method", "values", "metric", "value", "std"),
    [
        ("hfedf/table2", "fedavg", {"d": 1, "target": "photo"}, "ood", 57.8, 1.0),
        ("hfedf/table2", "fedavg", {"d": 1, "target": "photo"}, "id", 67.3, 12.8),
        ("hfedf/table2", "fedavg", {"d": 1}, "ood", 51.3, None),
        ("hfedf/table2", "central", {"d": 3, "target": "sketch"}, "ood", 55.8, 0.5),
        ("fdse/table1_office", "fedavg", {}, "all", 82.60, 3.14),
        ("fdse/table1_office", "fedavg", {}, "avg", 86.26, 2.54),
        ("fedrd/table2", "fedavg", {"target": "photo"}, "ood", 80.98, 0.25),
        ("stablefdg/table2b", "stablefdg", {"target": "sketch"}, "ood", 75.67, None),
        ("fdse/table2_office", "fdse-adapted", {"target": "webcam"}, "ood", 75.86, None),
        ("fdse/table2_office", "fdse", {}, "ood", 66.91, None),
        ("fdse/table2_office", "fedbn-adapted", {"target": "caltech"}, "ood", 60.71, None),
    ],
)
def test_published_values(
    name: str, method: str, values: dict[str, Any], metric: str, value: float, std: float | None
) -> None:
    found = published.find(Workspace(ROOT), load(Workspace(ROOT), name), method, values, metric)
    assert found is not None
    assert found.value == value
    assert found.std == std or (std is None and math.isnan(found.std))
    assert found.judged == value


@pytest.mark.parametrize("values", [{"target": "photo"}, {"d": 9, "target": "photo"}])
def test_no_published_value_for_an_average_or_an_unknown_cell(values: dict[str, Any]) -> None:
    assert (
        published.find(Workspace(ROOT), load(Workspace(ROOT), "hfedf/table2"), "fedavg", values, "ood")
        is None
    )


def test_every_published_template_finds_a_number() -> None:
    for name, values in (("hfedf/table2", {"d": 3}), ("fdse/table1_office", {})):
        experiment: Experiment = load(Workspace(ROOT), name)
        metrics = next(iter(experiment.tables.values())).metrics
        for method in experiment.methods:
            assert all(
                published.find(Workspace(ROOT), experiment, method, values, metric) for metric in metrics
            ), method


def domains_per_client(*values: int) -> dict[str, Any]:
    """The axis of hFedF's tables, under the name that their files give it."""
    return {"key": "partition.params.d", "values": [*values]}


def hfedf(project: Project) -> Collected:
    keys = load(Workspace(ROOT), "hfedf/table2").model_dump(include={"tables", "title", "protocol", "spec"})
    project.declare(
        "hfedf/table2",
        methods={"fedavg": None},
        axes={"d": domains_per_client(1), "target": ["photo"], "seed": [0, 1]},
        published={"*": "pacs/cnn32/lodo/d{d}/{method}/default/{target}"},
        **keys,
    )
    cells = expand(project.workspace, load(project.workspace, "hfedf/table2"))
    for cell, ood in zip(cells, (0.55, 0.57), strict=True):
        project.add("fedavg", {1: accuracy((0.7, 0.6), ood=ood)}, spec=cell.spec, **cell.axes)
    return project.collect()


def test_ours_stands_beside_theirs(project: Project) -> None:
    collected = hfedf(project)
    cells = tables.cells(project.workspace, collected, collected.experiment.tables["targets"]).set_index(
        "metric"
    )
    assert cells.loc["ood", ["mean", "published", "published_std", "difference"]].tolist() == pytest.approx(
        [56.0, 57.8, 1.0, -1.8]
    )
    assert cells.loc["id", "difference"] == pytest.approx(65.0 - 67.3)


def test_files_and_the_offline_page(project: Project) -> None:
    stem = tables.write(project.workspace, hfedf(project))
    folder = project.workspace.tables("hfedf/table2")
    expected = {
        f"{name}.{suffix}" for name in ("averages", "targets", "table") for suffix in ("csv", "md")
    } | {"table.html", "verdicts.csv"}
    assert {path.name for path in folder.iterdir()} == expected
    csv = pd.read_csv(folder / "table.csv")
    assert set(csv["table"]) == {"averages", "targets"}
    head, first = (folder / "targets.csv").read_text().splitlines()[:2]
    assert head.startswith("method,d,metric,target,mean,") and first.startswith(
        "fedavg,1,id,photo,65.0000,0.0000,2,2,67.3"
    )
    page = stem.with_suffix(".html").read_text()
    assert "paper 57.8 ± 1.0 (-1.8)" in page
    assert not re.search(r"https?://|<script|<link|url\(", page)


def test_footnotes_name_policies_and_mixtures(project: Project) -> None:
    project.declare(
        methods={"fedavg": None, "fedbn": None}, axes={"seed": [0, 1]}, tables={"t": {"metrics": ["id"]}}
    )
    for seed, (device, code) in enumerate((("cpu", "aaaaaaaa"), ("H200", "bbbbbbbb"))):
        project.add("fedavg", {0: accuracy((0.5, 0.5))}, device=device, code=code, seed=seed)
        project.add(
            "fedbn",
            {0: accuracy((0.5, 0.5))},
            bn="local",
            stage="post_train",
            model="personal",
            code="cccccccc",
            seed=seed,
        )
    text = tables.write(project.workspace, project.collect()).with_suffix(".md").read_text()
    assert "- Ours, not a paper's" in text  # the protocol's own note
    assert "Batch-norm statistics: averaged like weights (fedavg); kept by each client (fedbn)." in text
    assert (
        "Evaluated: global model after aggregation (fedavg); personal model after local training (fedbn)."
        in text
    )
    assert "Mixed hardware: cpu, AVX2, threads: 1 (fedavg, fedbn); H200 (fedavg)." in text
    assert "Mixed code: the runs of fedavg come from 2 versions of it." in text
    assert "runs of fedbn" not in text


def test_runs_of_other_code_are_named_and_counted(project: Project) -> None:
    project.declare(methods={"fedavg": None, "fedbn": None}, axes={"seed": [0, 1]}, tables={"t": {}})
    for label, seed in (("fedavg", 0), ("fedavg", 1), ("fedbn", 0), ("fedbn", 1)):
        project.add(label, {1: accuracy((0.5, 0.5))}, seed=seed)
    assert "declared alike" not in "".join(notes(project.collect()))
    project.runs[0] = project.runs[0]._replace(installed="0ther001")
    project.runs[1] = project.runs[1]._replace(installed=project.runs[1].code)
    (line,) = (line for line in notes(project.collect()) if "declared alike" in line)
    assert line.startswith("Other code than was installed")
    assert line.endswith("trained 1 of 4 runs, declared alike (rerun: version): fedavg (1).")


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
    assert "80.0†" in stem.with_suffix(".html").read_text()
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


def printed(project: Project, name: str, method: str, **axes: Any) -> tuple[pd.DataFrame, str]:
    """Cells and text of an experiment of ours, cut to one method and to some values on its axes; all its runs reach 50%."""
    one = load(Workspace(ROOT), name)
    table = {"metrics": ["ood"], "columns": ["d"] if "d" in axes else []}
    keys = one.model_dump(include={"protocol", "spec", "title"}) | {"tables": {"t": table}}
    project.declare(
        name, methods={method: one.methods[method]}, axes={**one.model_dump()["axes"], **axes}, published={method: one.published.get(method, one.published.get("*"))}, **keys
    )  # fmt: skip
    collected = project.add_all({1: accuracy((0.5, 0.5), ood=0.5)})
    cells = tables.cells(project.workspace, collected, collected.experiment.tables["t"])
    return cells, tables.write(project.workspace, collected).with_suffix(".md").read_text()


def test_what_is_printed_is_shown_and_what_it_is_taken_for_is_told(project: Project) -> None:
    """FedGMA, d = 1: Table 2 prints 48.9 where Table 11's cells have the mean 49.6."""
    cells, text = printed(project, "hfedf/table2", "fedgma", d=domains_per_client(1))
    assert cells[["published", "difference"]].iloc[0].tolist() == pytest.approx([48.9, 50 - 49.6])
    assert "48.9‡" in text
    assert "‡ Not taken as printed: the printed 48.9 is taken for 49.6, which the difference is from" in text


def test_a_slip_without_a_right_value_has_no_difference(project: Project) -> None:
    cells, _ = printed(project, "fedrd/table2", "fedavg", target=["sketch"])
    assert (cells["published"].fillna(cells["orientation"]) == 64.64).all()  # the average's, over one domain
    found = published.find(
        Workspace(ROOT), load(Workspace(ROOT), "fedrd/table2"), "fedavg", {"target": "sketch"}, "ood"
    )
    assert found is not None and found.value == 54.83 and math.isnan(found.judged)
    assert found.remark.startswith("the printed 54.83 is a slip, and no difference is shown")


def test_a_printed_half_width_becomes_a_standard_deviation(project: Project) -> None:
    """StableFDG's Table 10: 82.97 with a 95% half-width of 0.36 over three runs."""
    found = published.find(Workspace(ROOT), load(Workspace(ROOT), "stablefdg/table10"), "no-style", {}, "ood")
    assert found is not None
    assert (found.value, found.std) == (82.97, pytest.approx(0.36 * math.sqrt(3) / 4.302653))
    cells, text = printed(project, "stablefdg/table10", "no-style")
    shown = cells["published_std"].fillna(cells["orientation_std"])
    assert shown.tolist() == [pytest.approx(found.std)]
    assert "82.97 ± 0.14" in text
    assert "Printed spread: the printed ± is the half-width of a 95% interval of 3 runs" in text


def test_reference_tables_are_complete() -> None:
    assert len(pd.read_csv(Path(REFERENCE, "published.csv"), low_memory=False)) == 2079
    assert len(pd.read_csv(Path(REFERENCE, "claims.csv"))) == 443
