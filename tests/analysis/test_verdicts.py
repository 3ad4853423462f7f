"""Printed numbers judged: which cell stands for which, what both sides are, and why some cannot be judged."""

import math
from typing import Any

import pandas as pd
import pytest
from scipy.stats import t

from fedshift.analysis import tables
from fedshift.analysis.collect import NothingFinished
from fedshift.analysis.collected import Collected
from fedshift.analysis.coverage import numbers
from fedshift.analysis.published import by_uid, margin
from fedshift.analysis.verdicts import _sampled, summaries
from fedshift.common.errors import FedshiftError
from fedshift.experiments.expand import expand
from fedshift.experiments.load import load
from fedshift.storage.workspace import Workspace

from .conftest import REFERENCE, Project, accuracy, changed

ROOT = REFERENCE.parent
OFFICE = "fdse/table1"
KEPT = {"title", "paper", "protocol", "spec", "tables", "published"}


def office(project: Project, accuracies: dict[str, list[float | None]], **declared: Any) -> Collected:
    """FDSE's Table 1 on Office-Caltech10, by row and seed; the paper prints 82.60 ± 3.14 and 86.26 ± 2.54 of FedAvg."""
    experiment = load(Workspace(ROOT), OFFICE)
    kept = experiment.model_dump(include={"title", "paper", "protocol", "spec", "tables"})
    kept["published"] = {"*": experiment.published["*"]}
    seeds = [2, 4388, 15, 333, 967][: len(accuracies["fedavg"])]
    axes = {"data.dataset": ["office_caltech10"], "seed": seeds}
    project.declare(OFFICE, **{**kept, **declared}, methods=dict.fromkeys(accuracies), axes=axes)
    for cell in expand(project.workspace, load(project.workspace, OFFICE)):
        value = accuracies[cell.label][seeds.index(cell.axes["seed"])]
        project.add(cell.label, value and {1: accuracy((value, value))}, spec=cell.spec, **cell.axes)
    return project.collect()


def judged(project: Project, collected: Collected) -> pd.DataFrame:
    return pd.concat([*tables.judged(project.workspace, collected).values()]).set_index("metric")


def welch(*spreads: tuple[float, int, int]) -> float:
    """Half of the interval of a difference, from deviations, their degrees of freedom, and how many each mean is of."""
    parts = [deviation**2 / n for deviation, _, n in spreads]
    freedom = sum(parts) ** 2 / sum(part**2 / of[1] for part, of in zip(parts, spreads, strict=True))
    return float(t.ppf(0.975, freedom)) * math.sqrt(sum(parts))


def test_both_sides_of_a_number(project: Project) -> None:
    """FDSE's standard deviations, ours and its own, divide by n; they are judged as samples': 1.0 of 3 seeds, and
    3.14 sqrt(5 / 4) of 5, by Welch's degrees of freedom.
    """
    row = judged(project, office(project, {"fedavg": [0.82, 0.83, 0.84]})).loc["all"]
    assert (row["mean"], row["published"], row["difference"]) == pytest.approx((83, 82.60, 0.4))
    half = welch((1.0, 2, 3), (3.14 * math.sqrt(5 / 4), 4, 5))
    assert (row["low"], row["high"], row["margin"]) == pytest.approx((0.4 - half, 0.4 + half, 4.0))
    assert (row["rule"], row["verdict"]) == ("points", "consistent" if half <= 4 else "too few seeds")
    uid = "FDSE|T1|office_caltech10|alexnet_bn|domain_per_client|fedavg|default|all_clients|acc_all"
    assert row["uid"] == uid


@pytest.mark.parametrize("accuracies", [[0.82], [0.82, None, None], [0.82, 0.82, 0.82]])
def test_without_a_spread_of_ours_the_papers_stands_for_both(
    project: Project, accuracies: list[float | None]
) -> None:
    row = judged(project, office(project, {"fedavg": accuracies})).loc["all"]
    seeds = sum(value is not None for value in accuracies)
    half = t.ppf(0.975, 4) * 3.14 * math.sqrt(5 / 4) * math.sqrt(1 / seeds + 1 / 5)
    assert (row["high"] - row["low"]) / 2 == pytest.approx(half)
    assert (row["verdict"], row["planned"]) == ("too few seeds", len(accuracies))


def test_the_spread_is_pooled_over_methods(project: Project) -> None:
    """Deviations of 1 and 3 (n - 1) are sqrt(5) of 4 degrees of freedom, for both rows."""
    found = office(project, {"fedavg": [0.82, 0.83, 0.84], "local": [0.60, 0.63, 0.66]})
    rows = judged(project, found).loc["all"]
    printed = [_sampled(Workspace(ROOT), by_uid(Workspace(ROOT))[uid])[0] for uid in rows["uid"]]
    theirs = math.sqrt((printed[0] ** 2 + printed[1] ** 2) / 2)
    half = welch((math.sqrt(5), 4, 3), (theirs, 8, 5))
    assert ((rows["high"] - rows["low"]) / 2).tolist() == pytest.approx([half] * 2)


def test_a_row_without_runs_and_runs_of_another_setting_have_no_word(project: Project) -> None:
    with pytest.raises(NothingFinished):
        office(project, {"fedavg": [None, None, None]})
    other = office(project, {"fedavg": [0.82, 0.83, 0.84]}, spec={"federation": {"rounds": 10}})
    rows = judged(project, other)
    assert rows["verdict"].tolist() == [""] * 2 and rows["difference"].isna().all()
    assert rows["differs"].tolist() == ["federation.rounds 10, paper 500"] * 2


def test_the_word_stands_below_the_number_and_is_counted_by_printed_table(project: Project) -> None:
    """Far off."""
    collected = office(project, {"fedavg": [0.40, 0.41, 0.42]})
    text = project.page(collected)
    (line,) = (line for line in text.splitlines() if line.startswith("| · verdict"))
    assert line.count("different") == 2 and "| 1 | 2 | 0 | 2 | 0 |" in text
    ((table, compared, *words, _, _),) = summaries(judged(project, collected).reset_index())
    assert (table, compared, words) == ("1", "2", ["0", "2", "0"])


def test_why_a_number_cannot_be_compared() -> None:
    found = {number.uid: number for number in numbers(Workspace(ROOT), ["fedrd/table1", "stablefdg/table6"])}
    known = by_uid(Workspace(ROOT))
    slips = {uid: known[uid].remark if math.isnan(known[uid].judged) else "" for uid in found if uid in known}
    reasons = {uid: "; ".join(of.places[0].differs) or slips[uid] for uid, of in found.items() if of.places}
    assert sum("ratios are to" in reason for reason in reasons.values()) == 1
    assert sum("is a slip" in reason for reason in reasons.values()) == 10  # FedBN's row, or FedGA's
    assert sum(not reason for reason in reasons.values()) == len(reasons) - 11


def test_margins_are_twice_the_median_printed_deviation() -> None:
    """What reference/published.yaml says of them, by data set; hFedF's of methods with one model for all clients."""
    workspace = Workspace(ROOT)
    rows = pd.read_csv(REFERENCE / "published.csv", low_memory=False)
    rows = rows[rows["same_as"].isna() & rows["metric_id"].str.startswith("acc_")]
    alone = rows["metric_id"].eq("acc_ood") & rows["algo"].isin(["fedavg", "fedprox", "fedsr", "fedgma"])
    rows = rows[(rows["paper"] != "hFedF") | alone]
    known = by_uid(workspace)
    for (paper, dataset), uids in rows.groupby(["paper", "ds_id"])["row_uid"]:
        median = pd.Series([known[uid].std for uid in uids if uid in known]).median()
        expected = 1.0 if math.isnan(median) else max(1.0, round(2 * median, 1))
        assert margin(workspace, str(paper)).points[str(dataset)] == pytest.approx(expected), (paper, dataset)
    with pytest.raises(FedshiftError, match="unknown paper 'FDSF'"):
        margin(workspace, "FDSF")


def test_a_spread_that_is_not_known_to_be_over_seeds_is_none() -> None:
    """hFedF's is over seeds and clients, as inferred: its three seeds are not counted as a sample."""
    workspace = Workspace(ROOT)
    every = by_uid(workspace).values()
    sampled = {(number.kind, _sampled(workspace, number)[1] > 0) for number in every}
    ci95 = [number for number in every if number.kind == "ci95"]
    assert [_sampled(workspace, number)[0] for number in ci95] == [number.std for number in ci95]
    unknown = ("", "unstated_in_brackets", "std_seeds_and_clients?")
    assert sampled == {("std", True), ("ci95", True), *((kind, False) for kind in unknown)}


# ---- gains, times, and what is counted


def table4(project: Project, seconds: dict[str, list[float]]) -> pd.DataFrame:
    """FDSE's Table 4 on Office-Caltech10, of runs of two seeds that took so many seconds, by row and metric."""
    kept = load(Workspace(ROOT), "fdse/table4").model_dump(include=KEPT)
    project.declare("fdse/table4", **kept, methods=dict.fromkeys(seconds), axes={"seed": [2, 4388]})
    for cell in expand(project.workspace, load(project.workspace, "fdse/table4")):
        run = project.add(cell.label, {1: accuracy((0.5, 0.5))}, spec=cell.spec, **cell.axes)
        changed(run, costs={"seconds": seconds[cell.label][[2, 4388].index(cell.axes["seed"])]})
    return judged(project, project.collect()).reset_index().set_index(["method", "metric"])


def test_counts_are_right_to_the_last_printed_digit(project: Project) -> None:
    """1.30e7 parameters, 49.52 MiB, 4.41e10 multiply-adds of 50 images; FDSE's 2.24e10 are the first release's."""
    kept = load(Workspace(ROOT), "fdse/table4_counts").model_dump(include=KEPT)
    methods = dict.fromkeys(["fedbn", "ditto", "fdse"])
    project.declare("fdse/table4_counts", **kept, methods=methods, axes={"seed": [0]}, train=False)
    rows = judged(project, project.collect()).reset_index().set_index(["method", "metric"])
    verdicts = rows["verdict"].unstack()[["cost.parameters", "cost.state_dict", "cost.macs_norm"]]
    assert verdicts.loc["fedbn"].tolist() == verdicts.loc["ditto"].tolist() == ["consistent"] * 3
    assert verdicts.loc["fdse"].tolist() == ["consistent", "consistent", "different"]
    parameters = rows.loc["fedbn", "cost.parameters"]
    assert parameters[["rule", "published"]].tolist() == ["counted", 13.0]
    assert parameters["difference"] == pytest.approx(12.974154 - 13) and math.isnan(parameters["low"])
    assert rows.loc["fdse", "cost.macs_norm"]["mean"] < 447  # 448 is printed


@pytest.mark.parametrize(
    ("ditto", "verdict"),
    [([1.63, 1.64], "consistent"), ([2.6, 2.7], "different"), ([0.80, 0.81], "different"), ([1.0, 2.6], "too few seeds")],
)  # fmt: skip
def test_times_are_ratios_with_a_margin_in_percent(
    project: Project, ditto: list[float], verdict: str
) -> None:
    """Printed: Ditto 6.59 s, FedBN 4.03."""
    rows = table4(project, {"fedbn": [1, 1], "ditto": ditto}).xs("ratio.cost.seconds", level="metric")
    row, printed = rows.loc["ditto"], 6.59 / 4.03
    assert (row["verdict"], row["rule"]) == (verdict, "percent")
    assert row["margin"] == pytest.approx(printed / 4)
    assert row["difference"] == pytest.approx(sum(ditto) / 2 - printed)
    assert rows.loc["fedbn", "verdict"] == ""


def test_a_gain_is_judged_in_points(project: Project) -> None:
    """hFedF prints that it is 0.9 points above its ablation without GradAlign on PACS, id."""
    experiment = load(Workspace(ROOT), "hfedf/table5")
    kept = experiment.model_dump(include=KEPT - {"spec"})
    axes = experiment.model_dump()["axes"] | {"data.dataset": ["pacs"], "seed": [0, 1]}
    methods = {row: experiment.methods[row] for row in ("hfedf", "without-gradalign")}
    kept["published"] = {row: kept["published"][row] for row in methods}
    project.declare("hfedf/table5", **kept, methods=methods, axes=axes)
    for cell in expand(project.workspace, load(project.workspace, "hfedf/table5")):
        level = 0.71 if cell.label == "hfedf" else 0.70 + cell.axes["seed"] / 1000
        project.add(cell.label, {1: accuracy((level, level), ood=0.5)}, spec=cell.spec, **cell.axes)
    row = judged(project, project.collect()).loc["gain.id"]
    assert (row["mean"], row["published"], row["margin"]) == pytest.approx((0.95, 0.9, 2.0))
    assert (row["verdict"], row["rule"], row["method"]) == ("consistent", "points", "without-gradalign")


def test_a_second_rule_adds_no_degrees_of_freedom(project: Project) -> None:
    """Both rules read the same runs. The data set, which has one value, is not a column of the table."""
    of = {"columns": ["metric"], "metrics": ["all"], "printed": ["1"]}
    declared = {"one": {**of, "select": ["best_first"]}, "two": {**of, "select": ["best_first", "last"]}}
    found = office(project, {"fedavg": [0.82, 0.83, 0.84]}, tables=declared)
    one, two = (
        cells.loc[cells["select"] == "best_first", ["published", "low", "high"]].to_numpy().tolist()
        for cells in tables.judged(project.workspace, found).values()
    )
    assert one == two and one[0][0] == 82.60
