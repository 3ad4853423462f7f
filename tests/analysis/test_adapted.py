"""Adapted rows: what was adapted stands in tables, claims and reports as a method of its own."""

import json
import math
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fedshift.analysis.clients import leading
from fedshift.analysis.collect import Use
from fedshift.analysis.collected import Collected
from fedshift.analysis.evaluated import evaluated, gather, restore
from fedshift.analysis.figures.curves import Curves
from fedshift.analysis.notes import notes
from fedshift.analysis.report import write as write_report
from fedshift.common.files import canonical_json, write_json
from fedshift.experiments.load import load
from fedshift.experiments.task import Task, place, read_result, write_result
from fedshift.federation.records import SCHEMA
from fedshift.planning import planfile
from fedshift.storage.rundir import RunDirectory

from .conftest import Project, accuracy, changed
from .judging import verdicts

ROW = {"adapt": {"fedbn-adapted": {"run": "fedbn", "name": "fedbn"}}}
TASK = Task("fedbn", {}, "last")
OOD = {("a", 0): (0.50, 0.60), ("a", 1): (0.52, 0.58), ("b", 0): (0.30, 0.36), ("b", 1): (0.40, 0.50)}


def result(run: RunDirectory, before: float, after: float) -> Path:
    """What `fedshift evaluate` writes of an adaptation."""
    stamp = {**TASK.declared(), "run": run.digest, "weights": None, "seconds": 2.0}
    stamp["environment"] = {"device": "H200", "capability": "9.0", "threads": 1}
    same = {"round": 1, "model": "global", "member": 0, "client": -1, "split": "target", "n": 7, "time": 5.0}
    rows = [
        {**same, "stage": stage, "metric": metric, "value": value}
        for stage, accuracy, loss in (("post_agg", before, 1.0), ("adapted", after, 0.5))
        for metric, value in (("accuracy", accuracy), ("loss", loss))
    ]
    write_result(path := place(run, stamp), pa.Table.from_pylist(rows, SCHEMA), stamp)
    return path


def adapt(project: Project) -> None:
    """Plan an adaptation of the run that was added last."""
    declared = canonical_json(TASK.declared())
    project.cells.append(project.cells[-1]._replace(label="fedbn-adapted", adaptation=declared))


def made(project: Project, without: tuple[tuple[str, int], ...] = (), **declared: Any) -> Collected:
    """FedBN on two targets with two seeds, finished and adapted; in `without`: finished only."""
    axes = {"target": ["a", "b"], "seed": [0, 1]}
    shown = {"t": {"columns": ["target"], "metrics": ["id", "ood"]}}
    project.declare(methods={"fedbn": None}, axes=axes, tables=shown, **{**ROW, **declared})
    for (target, seed), (before, after) in OOD.items():
        rounds = {0: accuracy((0.1, 0.1)), 1: accuracy((0.8, 0.6), ood=before)}
        project.add("fedbn", rounds, target=target, seed=seed)
        adapt(project)
        if (target, seed) not in without:
            result(project.workspace.run_at(project.runs[-1].directory), before, after)
    return project.collect()


def test_adapted_rows_take_nobodys_lead(project: Project) -> None:
    project.declare(methods={"local": None, "fedbn": None}, axes={"target": ["a"], "seed": [0]}, **ROW)
    for method, clients in (("local", (0.7, 0.9)), ("fedbn", (0.8, 0.6))):
        project.add(method, {1: accuracy(clients, ood=0.5)}, target="a", seed=0)
    adapt(project)
    assert leading(project.collect(), "accuracy").fillna(-1).tolist() == [50, 50, -1]


def test_an_adapted_row_stands_below_the_methods_with_ood_alone(project: Project) -> None:
    collected = made(project)
    shown = project.shown(collected).set_index(["method", "target", "metric"])
    assert list(shown.index.get_level_values("method")) == ["fedbn"] * 6 + ["fedbn-adapted"] * 3
    ood = shown.xs("ood", level="metric")
    assert ood.loc["fedbn", "mean"].tolist() == pytest.approx([51, 35, 43])
    adapted = ood.loc["fedbn-adapted"]
    assert adapted["mean"].tolist() == pytest.approx([59, 43, 51])
    # 60 and 58 differ from their mean by 1: sqrt(2) of n - 1; averages 48 and 54 by 3.
    assert adapted["std"].tolist() == pytest.approx([math.sqrt(2), math.sqrt(98), math.sqrt(18)])
    assert shown.loc[("fedbn", "a", "id"), "mean"] == pytest.approx(70)
    (line,) = [line for line in project.page(collected).splitlines() if line.startswith("| fedbn-adapted")]
    assert [text.strip() for text in line.split("|")[2:-1]] == ["", "59.0 ± 1.4", "", "43.0 ± 9.9", "", "51.0 ± 4.2"]  # fmt: skip
    records = pq.read_table(collected.path).to_pandas().query("method == 'fedbn-adapted' and target == 'b'")
    told = records[records["seed"] == 1].set_index("metric")
    assert told["value"].to_dict() == {"accuracy": 0.5, "loss": 0.5}
    assert set(told["round"]) == {1} and set(told["n"]) == {7} and set(told["split"]) == {"target"}
    row = collected.runs.query("method == 'fedbn-adapted'").iloc[0]
    assert (row["hardware"], row["seconds"]) == ("H200", 1.5 + 2.0)
    assert row["digest"] == collected.runs.query("method == 'fedbn'").iloc[0]["digest"]


def test_what_was_not_adapted_is_missing_and_named(project: Project) -> None:
    collected = made(project, without=(("b", 1),))
    directory = project.runs[-1].directory
    assert collected.missing == [f"{directory} (fedbn-adapted)"]
    shown = project.shown(collected).query("method == 'fedbn-adapted' and metric == 'ood'")
    assert shown["seeds"].tolist() == [2, 1, 1] and shown["planned"].tolist() == [2, 2, 2]
    assert shown["mean"].tolist() == pytest.approx([59, 36, 48])
    (project.workspace.root / directory / "summary.json").unlink()
    assert project.collect().missing == [directory, f"{directory} (fedbn-adapted)"]


def test_a_result_of_other_weights_or_parameters_is_none_of_this_experiment(project: Project) -> None:
    """A run was trained anew, and ended in other bits; then the experiment asks for two epochs."""
    made(project)
    run = project.runs[-1].directory
    changed(project.workspace.root / run, hashes={"weights_last": "others"})
    assert project.collect().missing == [f"{run} (fedbn-adapted)"]
    other = canonical_json(Task("fedbn", {"epochs": 2}, "last").declared())
    project.cells = [cell._replace(adaptation=other) if cell.adaptation else cell for cell in project.cells]
    assert len(project.collect().missing) == 4


def test_a_new_result_joins_those_that_were_collected(project: Project) -> None:
    first = made(project, without=(("b", 1),))
    assert len(first.missing) == 1
    project.runs, project.cells = [], []
    shutil.rmtree(project.workspace.results / "runs")
    whole = made(project)
    assert whole.missing == []
    files = [whole.path, whole.statistics, whole.path.with_suffix(".runs.parquet")]
    before = [path.read_bytes() for path in files]
    for path in files:
        path.unlink()
    project.collect()
    assert [path.read_bytes() for path in files] == before  # grown or written at once: the same bytes


def test_a_claim_may_speak_of_it(project: Project) -> None:
    rows = {"FDSE (adapted)": "fedbn-adapted", "FDSE - align (no adaptation)": "fedbn"}
    claim = {"FDSE-C10.1": {"metric": "ood", "rows": rows}}
    (verdict,) = verdicts(project.workspace, made(project, claims=claim))
    (against,) = verdict.differences
    assert (against.difference, against.seeds) == (pytest.approx(8), 2)
    assert verdict.orientation == pytest.approx(75.52 - 66.91)  # the toy is of no paper


def test_notes_name_it_figures_leave_it_out_and_the_report_counts_its_cost(project: Project) -> None:
    collected = made(project)
    told = notes(collected)
    (line,) = [line for line in told if line.startswith("fedbn-adapted: ")]
    assert f"adapted by fedbn (batch 50, epochs 1; code {TASK.declared()['code']})" in line
    assert "Evaluated: global model after aggregation." in told
    assert "Mixed hardware: cpu, AVX2, threads: 1 (fedbn); H200 (fedbn-adapted)." in told
    assert {*Curves(Curves.Params()).plot(project.workspace, collected).frame["label"]} == {"fedbn"}
    path = write_report(project.workspace, ["toy"], "toy")
    scores = json.loads(path.with_name("scores.json").read_text())["toy"]
    assert scores["fedbn"] == {"id": 70.0, "ood": 43.0, "finished": 4}
    assert scores["fedbn-adapted"] == {"ood": 51.0, "finished": 4}


def test_results_pulled_from_elsewhere_are_known_here(project: Project) -> None:
    made(project)
    workspace, planned = project.workspace, {run.digest: run for run in project.runs}
    runs = [workspace.run_at(run.directory) for run in project.runs]
    uses = [
        Use(
            cell.label,
            json.loads(cell.axes),
            workspace.run_at(run.directory),
            run.directory,
            run.spec,
            run.code,
            cell.adaptation,
        )
        for cell in project.cells
        if cell.adaptation and (run := planned[cell.digest])
    ]
    paths = {run.digest: next(run.evaluated.iterdir()) for run in runs}
    results = [(use, paths[use.run.digest]) for use in uses]
    gather(workspace, load(workspace, "toy"), "fedbn-adapted", TASK, results)
    gathered = evaluated(workspace, "toy", "fedbn-adapted").to_pandas()
    assert len(gathered) == 16 and {*gathered["target"]} == {"a", "b"}
    assert {*gathered["method"]} == {"fedbn-adapted"}
    summaries = {run.digest: run.summary() for run in runs}
    write_json(workspace.pack("0123").path, {"pack": "0123", "finished": summaries, "failed": {}})
    records = {run.metrics: pq.read_table(run.metrics) for run in runs}
    wanted = {path: read_result(path) for path in paths.values()}
    shutil.rmtree(workspace.results / "runs")
    assert (restore(workspace), restore(workspace)) == (4, 0)
    for path, before in records.items():  # the run's records, not those of its adaptation
        assert pq.read_table(path).num_rows == before.num_rows
    for path, (before, stamp) in wanted.items():
        there, told = read_result(path)
        assert there.equals(before) and told == stamp
    assert len(list(workspace.results.rglob("evaluated/*.parquet"))) == 4


def test_a_plan_keeps_what_is_adapted_how(project: Project) -> None:
    made(project)
    read = planfile.cells(project.plan())
    assert [cell.adaptation for cell in read] == ["", canonical_json(TASK.declared())] * 4
