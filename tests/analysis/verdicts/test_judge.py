"""Printed numbers judged: which cell stands for which, what both sides are, and why some cannot be judged."""

from __future__ import annotations

import json
import math
from typing import Any

import pandas as pd
import pytest
import yaml

from fedshift.analysis import tables
from fedshift.analysis.collection.collect import NothingFinished, collect
from fedshift.analysis.collection.collected import Collected
from fedshift.analysis.printed.cell import UNIT
from fedshift.analysis.printed.published import by_uid
from fedshift.analysis.printed.spec import margin
from fedshift.analysis.verdicts.coverage import numbers
from fedshift.analysis.verdicts.judge import COLUMNS, SPREADS, WORDS, _summary, incomparable, judge
from fedshift.analysis.verdicts.lines import counts, footnotes
from fedshift.analysis.verdicts.lines import numbers as told
from fedshift.common.errors import FedshiftError
from fedshift.common.files import write_json
from fedshift.experiments.expand import expand
from fedshift.experiments.load import load
from fedshift.storage.workspace import Workspace

from ..conftest import REFERENCE, Project, accuracy

ROOT = REFERENCE.parent
OFFICE = "fdse/table1"


def office(project: Project, accuracies: list[float | None], **changed: Any) -> Collected:
    """FDSE's Table 1, FedAvg on Office-Caltech10 alone, of which the paper prints 82.60 ± 3.14 and 86.26 ± 2.54."""
    experiment = load(Workspace(ROOT), OFFICE)
    kept = experiment.model_dump(include={"title", "paper", "protocol", "spec", "tables"})
    kept["published"] = {"*": experiment.published["*"]}
    project.declare(OFFICE, **{**kept, **changed}, methods={"fedavg": None}, axes=_axes(len(accuracies)))
    cells = expand(project.workspace, load(project.workspace, OFFICE))
    for cell, value in zip(cells, accuracies, strict=True):
        project.add("fedavg", value and {1: accuracy((value, value))}, spec=cell.spec, **cell.axes)
    return project.collect()


def _axes(seeds: int) -> dict[str, Any]:
    return {"data.dataset": ["office_caltech10"], "seed": [2, 4388, 15, 333, 967][:seeds]}


def judged(project: Project, collected: Collected) -> pd.DataFrame:
    root = project.workspace.root
    cells = {
        name: tables.cells(Workspace(root), collected, table)
        for name, table in collected.experiment.tables.items()
    }
    return judge(Workspace(root), collected, cells).set_index("metric")


def test_both_sides_of_a_number(project: Project) -> None:
    """FDSE's standard deviations, ours and its own, divide by n; they are judged as samples'."""
    rows = judged(project, office(project, [0.82, 0.83, 0.84]))
    row = rows.loc["all"]
    assert row[["paper", "printed_table", "method", "verdict"]].tolist() == [
        "FDSE",
        "1",
        "fedavg",
        "undecided",
    ]
    assert (row["ours"], row["std"], row["seeds"]) == pytest.approx((83, 1.0, 3))
    assert (row["printed"], row["printed_std"]) == pytest.approx((82.60, 3.14 * math.sqrt(5 / 4)))
    assert (row["printed_seeds"], row["printed_spread"]) == ("5", SPREADS["std"])
    assert (row["margin"], row["difference"]) == pytest.approx((2.0, 0.4))
    assert row["low"] < 0.4 - row["detectable"] / 3 and row["needed"] > 3
    assert list(rows.index) == ["all", "avg"]


def test_far_off_is_outside_and_says_by_how_much(project: Project) -> None:
    rows = judged(project, office(project, [0.40, 0.41, 0.42]))
    assert rows["verdict"].tolist() == ["outside", "outside"]
    assert rows.loc["all", "why"] == "39.6 beyond the margin"  # 82.6 - 41 - 2


@pytest.mark.parametrize(
    ("accuracies", "verdict", "why"),
    [
        ([0.82], "undecided", "one seed"),
        ([0.82, None, None], "undecided", "one seed"),
        ([0.82, 0.82, 0.82], "undecided", "all seeds alike"),
    ],
)
def test_too_few_seeds(project: Project, accuracies: list[float | None], verdict: str, why: str) -> None:
    rows = judged(project, office(project, accuracies))
    assert rows[["verdict", "why"]].to_numpy().tolist() == [[verdict, why]] * 2
    assert rows["planned"].tolist() == [len(accuracies)] * 2


def test_a_method_without_runs(project: Project) -> None:
    with pytest.raises(NothingFinished):
        office(project, [None, None, None])
    path = project.workspace.experiments / f"{OFFICE}.yaml"
    declared = yaml.safe_load(path.read_text())
    path.write_text(yaml.safe_dump({**declared, "methods": {"fedavg": None, "fedbn": None}}))
    project.add("fedbn", {1: accuracy((0.8, 0.8))}, **{"data.dataset": "office_caltech10", "seed": 2})
    rows = judged(project, project.collect())
    rows = rows[rows["method"] == "fedavg"]
    assert rows[["verdict", "why"]].to_numpy().tolist() == [["not run", "no seed has all its runs"]] * 2


def test_runs_of_another_setting_are_not_comparable(project: Project) -> None:
    collected = office(project, [0.82, 0.83, 0.84], spec={"federation": {"rounds": 10}})
    rows = judged(project, collected)
    assert rows["verdict"].tolist() == ["not comparable"] * 2
    assert rows.loc["all", "why"] == "federation.rounds 10, paper 500"
    assert rows["difference"].isna().all()


def test_an_experiment_of_no_paper_has_no_verdicts(project: Project) -> None:
    project.declare(methods={"fedavg": None}, axes={"seed": [0]}, tables={"t": {}})
    project.add("fedavg", {1: accuracy((0.5, 0.5))}, seed=0)
    collected = project.collect()
    stem = tables.write(project.workspace, collected)
    assert stem.with_name("verdicts.csv").read_text().strip() == ",".join(COLUMNS)
    assert "## Verdicts" not in stem.with_suffix(".md").read_text()


def test_the_page_counts_them_by_printed_table(project: Project) -> None:
    collected = office(project, [0.40, 0.41, 0.42])
    stem = tables.write(project.workspace, collected)
    assert counts(judged(project, collected).reset_index()) == [("1", "2", "0", "2", "0", "0", "0")]
    assert "| 1 | 2 | 0 | 2 | 0 | 0 | 0 |" in stem.with_suffix(".md").read_text()
    kept = pd.read_csv(stem.with_name("verdicts.csv"))
    assert kept["verdict"].tolist() == ["outside", "outside"] and list(kept) == COLUMNS


def test_a_number_in_words(project: Project) -> None:
    rows = judged(project, office(project, [0.82, 0.83, 0.84])).reset_index()
    assert len(footnotes(rows)) == 1 and footnotes(rows[:0]) == []
    line = told(rows)[0]
    assert line[:5] == (
        "fedavg",
        "1: data.dataset office_caltech10, all",
        "undecided",
        "83.00 ± 1.00 (3)",
        "82.60 ± 3.51 (5)",
    )
    assert line[5].startswith("+0.40 [-") and line[9:] == (SPREADS["std"], "")
    assert float(line[6]) > 0.05 and float(line[7]) > 1.6
    assert line[8] == "more than 1000"  # of ours: the paper's five seeds alone have an error of 1.6


def test_one_seed_in_words(project: Project) -> None:
    unknown = office(project, [0.82])
    assert told(judged(project, unknown).reset_index())[0][5:8] == ("-0.60", "", "")


def test_why_a_number_cannot_be_compared() -> None:
    found = {number.uid: number for number in numbers(Workspace(ROOT), ["fedrd/table1", "stablefdg/table6"])}
    reasons = {uid: incomparable(Workspace(ROOT), number) for uid, number in found.items() if number.places}
    assert sum("ratios are to" in reason for reason in reasons.values()) == 1
    assert sum("is a slip" in reason for reason in reasons.values()) == 10  # FedBN's row, or FedGA's
    assert sum(not reason for reason in reasons.values()) == len(reasons) - 11


def test_a_number_that_is_printed_twice_is_judged_in_both_tables() -> None:
    rows = pd.read_csv(REFERENCE / "published.csv", low_memory=False)
    again = rows[rows["same_as"].notna() & rows["metric_id"].str.startswith("acc_") & rows["mean"].notna()]
    assert len(again) > 100 and {*again["row_uid"]} <= {*by_uid(Workspace(ROOT))}


def test_margins_are_twice_the_median_printed_deviation() -> None:
    """What reference/published.yaml says of them: of numbers that are not printed again; hFedF's where d = 3."""
    rows = pd.read_csv(REFERENCE / "published.csv", low_memory=False)
    rows = rows[
        rows["same_as"].isna() & ((rows["paper"] != "hFedF") | rows["table"].isin(["13", "16", "19"]))
    ]
    known = by_uid(Workspace(ROOT))
    for paper, uids in rows.groupby("paper")["row_uid"]:
        median = pd.Series([known[uid].std for uid in uids if uid in known]).median()
        assert margin(Workspace(ROOT), str(paper)).points == pytest.approx(max(1.0, round(2 * median, 1))), (
            paper
        )


def test_every_paper_has_a_margin_with_its_reason_and_every_spread_a_name() -> None:
    papers = {printed.row.paper for printed in by_uid(Workspace(ROOT)).values()}
    assert all(
        margin(Workspace(ROOT), paper).points >= 1 and margin(Workspace(ROOT), paper).why for paper in papers
    )
    assert {printed.kind for printed in by_uid(Workspace(ROOT)).values()} == {*SPREADS}
    with pytest.raises(FedshiftError, match="unknown paper 'FDSF'"):
        margin(Workspace(ROOT), "FDSF")
    assert len(WORDS) == 5


def test_a_spread_that_is_not_known_to_be_over_seeds_makes_the_printed_number_a_constant() -> None:
    """hFedF's is over seeds and clients, as inferred: its three seeds are not counted as a sample."""
    printed = [*by_uid(Workspace(ROOT)).values()]
    sampled = {(number.kind, _summary(Workspace(ROOT), number).sampled) for number in printed}
    assert sampled == {
        ("std", True),
        ("ci95", True),
        ("", False),
        ("unstated_in_brackets", False),
        ("std_seeds_and_clients?", False),
    }


# ---- Gains, times, and what is counted or declared


def table4(project: Project, seconds: dict[str, list[float]]) -> pd.DataFrame:
    """FDSE's Table 4 on Office-Caltech10, of runs of two seeds that took so many seconds, by row and metric."""
    experiment = load(Workspace(ROOT), "fdse/table4")
    kept = experiment.model_dump(include={"title", "paper", "protocol", "spec", "tables", "published"})
    project.declare("fdse/table4", **kept, methods=dict.fromkeys(seconds), axes={"seed": [2, 4388]})
    for cell in expand(project.workspace, load(project.workspace, "fdse/table4")):
        directory = project.add(cell.label, {1: accuracy((0.5, 0.5))}, spec=cell.spec, **cell.axes)
        summary = json.loads((directory / "summary.json").read_text())
        summary["costs"]["seconds"] = seconds[cell.label][[2, 4388].index(cell.axes["seed"])]
        write_json(directory / "summary.json", summary)
    return judged(project, project.collect()).reset_index().set_index(["method", "metric"])


def test_counts_are_right_to_the_last_printed_digit(project: Project) -> None:
    """1.30e7 parameters, 49.52 MiB, 4.41e10 multiply-adds of 50 images; FDSE's 2.24e10 are the first release's."""
    rows = table4(project, {"fedbn": [1, 1], "ditto": [1, 1], "fdse": [1, 1]})
    verdicts = rows["verdict"].unstack()[["cost.parameters", "cost.state_dict", "cost.macs_norm"]]
    assert verdicts.loc["fedbn"].tolist() == verdicts.loc["ditto"].tolist() == ["inside"] * 3
    assert verdicts.loc["fdse"].tolist() == ["inside", "inside", "outside"]
    parameters = rows.loc["fedbn", "cost.parameters"]
    assert parameters[["rule", "margin", "printed"]].tolist() == ["exact", pytest.approx(0.05), 13.0]
    assert parameters["difference"] == pytest.approx(12.974154 - 13)
    macs = rows.loc["fdse", "cost.macs_norm"]
    assert (macs["printed"], macs["margin"]) == pytest.approx((448, 1))
    assert macs["why"] == f"{448 - macs['ours'] - 1:.3g} beyond the printed rounding" and macs["ours"] < 447


@pytest.mark.parametrize(
    ("ditto", "verdict"),
    [([1.6, 1.7], "inside"), ([2.6, 2.7], "outside"), ([0.80, 0.81], "outside"), ([1.0, 2.6], "undecided")],
)
def test_times_are_ratios_with_a_margin_in_percent(
    project: Project, ditto: list[float], verdict: str
) -> None:
    """Printed: Ditto 6.59 s, FedBN 4.03."""
    rows = table4(project, {"fedbn": [1, 1], "ditto": ditto}).xs("ratio.cost.seconds", level="metric")
    row = rows.loc["ditto"]
    assert (row["verdict"], row["rule"], row["margin"]) == (verdict, "percent", 25)
    assert row["printed"] == pytest.approx(6.59 / 4.03) and row["ours"] == pytest.approx(sum(ditto) / 2)
    assert row["difference"] == pytest.approx(100 * (sum(ditto) / 2) / (6.59 / 4.03) - 100)
    assert rows.loc["fedbn", ["verdict", "why"]].tolist() == ["not comparable", UNIT]


def declared(project: Project, name: str, **changed: Any) -> pd.DataFrame:
    """The verdicts on an experiment of ours whose runs are not trained."""
    keys = load(Workspace(ROOT), name).model_dump(exclude={"name", "claims"})
    project.declare(name, **(keys | changed))
    return judged(project, collect(project.workspace, name))


def test_layers_are_compared_in_words(project: Project) -> None:
    rows = declared(project, "fdse/tableA7")
    assert rows["verdict"].tolist() == ["inside", "outside", "inside", "outside"]
    assert rows.loc["layer.block.2", "why"].startswith(
        "ours Conv2d(32, 32, 3, 1, 1, groups 32, no bias), paper"
    )
    lines = told(rows.reset_index())
    assert lines[1][3] == "288" and "paper" in lines[1][-1]


@pytest.mark.parametrize(("rate", "verdict"), [(0.001, "inside"), (0.0011, "outside")])
def test_a_searched_value_is_printed_as_it_is(project: Project, rate: float, verdict: str) -> None:
    axes = {"data.dataset": ["pacs"], "target": ["photo"], "seed": [0]}
    methods = {"hfedf": {"local": {"lr": rate}}}
    tables_ = {"client": {"printed": ["10"], "metrics": ["setting.local.lr"], "columns": ["data.dataset"]}}
    rows = declared(project, "hfedf/table10", axes=axes, methods=methods, tables=tables_)
    assert rows["verdict"].tolist() == [verdict]
    (line,) = told(rows.reset_index())
    assert line[3:5] == (f"{rate:g}", "0.001")
    assert "to its last digit" in footnotes(rows)[0] and len(footnotes(rows)) == 1


def test_a_gain_is_judged_in_points(project: Project) -> None:
    """hFedF prints that it is 0.9 points above its ablation without GradAlign on PACS, id."""
    experiment = load(Workspace(ROOT), "hfedf/table5")
    kept = experiment.model_dump(include={"title", "paper", "protocol", "tables", "published"})
    axes = experiment.model_dump()["axes"] | {"data.dataset": ["pacs"], "seed": [0, 1]}
    methods = {row: experiment.methods[row] for row in ("hfedf", "without-gradalign")}
    kept["published"] = {row: kept["published"][row] for row in methods}
    project.declare("hfedf/table5", **kept, methods=methods, axes=axes)
    for cell in expand(project.workspace, load(project.workspace, "hfedf/table5")):
        level = 0.71 if cell.label == "hfedf" else 0.70 + cell.axes["seed"] / 1000
        project.add(cell.label, {1: accuracy((level, level), ood=0.5)}, spec=cell.spec, **cell.axes)
    row = judged(project, project.collect()).loc["gain.id"]
    assert (row["ours"], row["printed"], row["rule"], row["margin"]) == pytest.approx(
        (0.95, 0.9, "points", 3.3)
    )
    assert (row["verdict"], row["method"]) == ("inside", "without-gradalign")
