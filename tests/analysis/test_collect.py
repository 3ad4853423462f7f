"""Collected files hold every record once, and every planned run, finished or not."""

import itertools
import json
import os
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fedshift.analysis import collect as module
from fedshift.analysis.clients import INDEX, _apart
from fedshift.analysis.collect import collect
from fedshift.analysis.collected import diagnostics, read
from fedshift.analysis.evaluated import measured, restore
from fedshift.api.runs import results
from fedshift.cli.results import collected_or_archived
from fedshift.common.errors import FedshiftError
from fedshift.common.files import write_json
from fedshift.experiments.expand import Cell, expand
from fedshift.experiments.load import load
from fedshift.federation.records import SCHEMA, STATISTICS, DiagnosticsTable
from fedshift.storage.rundir import RunDirectory
from tests.documents import python_block
from tests.verbs import done, fedshift

from .conftest import Project, accuracy, changed, counted
from .evaluating import evaluate

HALF = {0: accuracy((0.5, 0.5))}
ROWS = [*itertools.product(("fedavg", "local"), (0, 1))]


def declare(project: Project) -> None:
    """FedAvg and Local on a target with two seeds."""
    project.declare(methods={"fedavg": None, "local": None}, axes={"target": ["a"], "seed": [0, 1]})


def one(project: Project, **about: Any) -> Path:
    """One run of FedAvg."""
    project.declare(methods={"fedavg": None}, axes={"seed": [0]})
    return project.add("fedavg", HALF, seed=0, **about)


def pulled(project: Project, finished: dict[str, Any]) -> None:
    """As on another clone: stamps and collected files, and no directories of the runs that made them."""
    write_json(project.workspace.pack("0123").path, {"pack": "0123", "finished": finished, "failed": {}})
    shutil.rmtree(project.workspace.results / "runs")


def test_every_record_once_with_its_run(project: Project) -> None:
    declare(project)
    for method, seed in ROWS:
        value = 0.5 + 0.1 * seed
        rounds = {0: accuracy((0.1, 0.1)), 1: accuracy((value, value), ood=0.3)}
        project.add(method, rounds, sizes=(7, 9), bn="local", device="H200", target="a", seed=seed)
    collected = project.collect()
    table = pq.read_table(project.workspace.metrics("toy"))
    assert table.column_names == ["method", "target", "seed", "digest", *SCHEMA.names]
    assert len(table) == 4 * (4 + 5) * 2  # 4 runs, 4 and 5 accuracies in rounds 0 and 1, each with a loss
    frame = table.to_pandas()
    kept = frame[(frame["method"] == "local") & (frame["seed"] == 1) & (frame["metric"] == "accuracy")]
    assert kept.loc[kept["client"] == -1, "value"].tolist() == [0.3]
    assert kept.loc[(kept["round"] == 1) & (kept["split"] == "test"), "value"].tolist() == [0.6, 0.6]
    assert collected.keys == ["method", "target", "seed"] and collected.missing == []
    runs = collected.runs
    assert (
        {*runs["bn"]} == {"local"} and {*runs["hardware"]} == {"H200"} and {*runs["state_dict_bytes"]} == {40}
    )
    assert [client["train"] for client in runs["clients"][0]] == [7, 9]


def test_ten_runs_that_lack_are_named_and_the_others_counted(project: Project) -> None:
    project.declare(methods={"fedavg": None}, axes={"seed": [*range(13)]})
    for seed in range(13):
        project.add("fedavg", None if seed else HALF, seed=seed)
    output = done(fedshift(project.workspace.root, "collect", "toy", "--plan", str(project.plan())))
    assert "1 of 13 runs: " in output and output.count("not finished: ") == 10
    assert output.endswith("\nand 2 more: fedshift status --runs toy\n")


def test_a_run_without_summary_is_named_and_not_read(project: Project) -> None:
    declare(project)
    for method in ("fedavg", "local"):
        project.add(method, HALF, target="a", seed=0)
    broken = project.add("fedavg", {0: accuracy((0.9, 0.9))}, target="a", seed=1)
    (broken / "summary.json").unlink()
    (broken / "failure.json").write_text(json.dumps({"kind": "OSError", "text": "disk full", "retry": True}))
    absent = project.add("local", None, target="a", seed=1)
    collected = project.collect()
    names = [path.relative_to(project.workspace.root).as_posix() for path in (broken, absent)]
    assert collected.missing == names
    assert collected.runs["state"].tolist() == ["finished", "finished", "failed", "missing"]
    assert collected.runs["failure"].tolist()[2] == "disk full"
    table = pq.read_table(project.workspace.metrics("toy"))
    assert 0.9 not in table["value"].to_pylist()


@pytest.mark.parametrize("column", ["spec", "rounds"])
def test_what_older_code_collected_is_collected_anew(project: Project, column: str) -> None:
    one(project)
    project.collect()
    path = project.workspace.metrics("toy").with_suffix(".runs.parquet")
    pq.write_table(pq.read_table(path).drop_columns([column]).replace_schema_metadata(), path)
    with pytest.raises(FedshiftError, match=rf"no column '{column}'\s+Run `fedshift collect toy` again"):
        read(project.workspace, "toy")
    assert project.collect().runs[column].notna().all()


@pytest.mark.parametrize("trained", [1, None])
def test_rounds_are_those_that_a_run_trained(
    project: Project, trained: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two that it declares; a summary of before runs stopped early does not say. Also on macOS, without affinity."""
    monkeypatch.delattr("os.sched_getaffinity")
    changed(one(project), rounds=trained)
    assert project.collect().runs["rounds"].tolist() == [trained or 2]


def test_mistakes_name_the_cure(project: Project) -> None:
    project.declare(methods={"fedavg": None}, axes={"seed": [0]})
    with pytest.raises(FedshiftError, match="fedshift collect toy"):
        read(project.workspace, "toy")
    project.add("fedavg", None, seed=0)
    plan = project.plan()
    project.declare("other", methods={"fedavg": None}, axes={"seed": [0]})
    with pytest.raises(FedshiftError, match="no experiment 'other'"):
        collect(project.workspace, "other", plan)


SEEDS = 50


@pytest.fixture
def small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Row groups that hold a few runs, so that files have many."""
    monkeypatch.setattr(module, "ROWS_A_GROUP", 20)


def many(project: Project, without: tuple[int, ...] = (), statistics: bool = True) -> None:
    """One run a seed, its accuracy the seed's; those in `without` have not finished."""
    project.runs.clear()
    project.cells.clear()
    project.declare(methods={"fedavg": None}, axes={"seed": list(range(SEEDS))})
    for seed in range(SEEDS):
        there = project.workspace.results.exists() and any(project.workspace.results.rglob(f"seed{seed}"))
        values = None if seed in without or there else {0: accuracy((seed / SEEDS,) * 2)}
        project.add("fedavg", values, seed=seed, statistics=counted(4, seed=seed) if statistics else None)


def files(project: Project) -> list[Path]:
    path = project.workspace.metrics("toy")
    return [path, path.with_suffix(".statistics.parquet"), path.with_suffix(".runs.parquet")]


@pytest.mark.usefixtures("small_groups")
def test_files_that_grew_have_the_bytes_of_a_first_time(project: Project) -> None:
    many(project, without=(0, 20, 49))
    assert len(project.collect().missing) == 3
    many(project)
    assert project.collect().missing == []
    grown = [path.read_bytes() for path in files(project)]
    for path in files(project):
        path.unlink()
    project.collect()
    assert [path.read_bytes() for path in files(project)] == grown
    records = pq.read_table(files(project)[0], filters=[("split", "==", "val"), ("metric", "==", "accuracy")])
    assert records["value"].to_pylist()[::2] == [seed / SEEDS for seed in range(SEEDS)]
    assert pq.read_metadata(files(project)[0]).num_row_groups > 10


@pytest.mark.usefixtures("small_groups")
def test_statistics_are_collected_once_with_their_run(project: Project) -> None:
    many(project)
    collected = project.collect()
    table = pq.read_table(collected.statistics)
    assert table.column_names == ["method", "seed", "digest", *STATISTICS.names]
    assert table["seed"].to_pylist() == [seed for seed in range(SEEDS) for _ in range(4)]
    last = counted(4, seed=SEEDS - 1)
    assert table["correct"].to_pylist()[-4:] == last.correct.tolist()
    assert table["right"].to_pylist()[-4:] == last.right.tolist()


def test_collecting_again_gives_the_same_bytes_and_a_run_made_again_is_read_again(project: Project) -> None:
    run = one(project)
    project.collect()
    first = project.workspace.metrics("toy").read_bytes()
    project.collect()
    assert project.workspace.metrics("toy").read_bytes() == first
    changed(run, environment={"device": "H200"})
    assert project.collect().runs["hardware"].tolist() == ["H200"]


@pytest.mark.usefixtures("small_groups")
@pytest.mark.parametrize("statistics", [True, False])
def test_runs_that_were_pulled_are_restored_and_joined_by_new_ones(
    project: Project, statistics: bool
) -> None:
    many(project, without=(3,), statistics=statistics)
    before = project.collect()
    runs = project.workspace.results / "runs"
    pulled(project, {path.parent.name: json.loads(path.read_text()) for path in runs.rglob("summary.json")})
    assert (restore(project.workspace), restore(project.workspace)) == (SEEDS - 1, 0)
    seeds = {json.loads(path.read_text())["seed"] for path in runs.rglob("summary.json")}
    assert seeds == {*range(SEEDS)} - {3}
    grown = [path.read_bytes() for path in files(project)]
    for path in project.workspace.results.glob("metrics/*"):
        path.unlink()
    again = project.collect()
    assert [path.read_bytes() for path in files(project)] == grown  # all comes back bit for bit
    assert before.missing == again.missing
    many(project, statistics=statistics)
    assert project.collect().runs["state"].tolist() == ["finished"] * SEEDS


def test_a_failed_run_that_was_pulled_is_restored_with_its_reason(project: Project) -> None:
    """Else its stamp would be deleted, and the clone would train it."""
    project.declare(methods={"fedavg": None, "local": None}, axes={"seed": [0]})
    project.add("local", HALF, seed=0)
    run = RunDirectory(project.add("fedavg", None, seed=0))
    failure = {"kind": "FedshiftError", "text": "loss is NaN", "retry": False}
    run.fail(failure)
    project.collect()
    stamp = project.workspace.pack("0123")
    assert stamp.settle([run])
    shutil.rmtree(run.path)
    assert restore(project.workspace) == 0
    assert run.failure() == failure and stamp.settle([run])


def test_a_run_that_two_rows_share_is_restored_once(project: Project) -> None:
    directory = one(project, statistics=counted(4))
    project.declare(methods={"fedavg": None, "again": {"method": {"name": "fedavg"}}}, axes={"seed": [0]})
    project.cells.append(project.cells[0]._replace(label="again"))
    collected = project.collect()
    kinds = {kind: directory / f"{kind}.parquet" for kind in ("metrics", "statistics")}
    before = {kind: pq.read_table(path).to_pylist() for kind, path in kinds.items()}
    assert len(pq.read_table(collected.path)) == 2 * len(before["metrics"])
    pulled(project, {directory.name: json.loads((directory / "summary.json").read_text())})
    assert restore(project.workspace) == 1
    assert {kind: pq.read_table(path).to_pylist() for kind, path in kinds.items()} == before


def test_damaged_records_are_named_and_those_that_are_cut_off_count_as_missing(project: Project) -> None:
    project.declare(methods={"fedavg": None, "local": None}, axes={"seed": [0]})
    records = project.add("fedavg", HALF, seed=0) / "metrics.parquet"
    project.add("local", HALF, seed=0)
    whole = records.read_bytes()
    records.write_bytes(whole[:40] + whole[-4:])
    with pytest.raises(FedshiftError, match=r"metrics\.parquet: is not whole: ") as error:
        project.collect()
    assert f"Remove {records.parent}" in error.value.cure
    records.write_bytes(whole[:40])
    assert project.collect().runs["state"].tolist() == ["missing", "finished"]


# ---- the reader of diagnostics: a run's, an experiment's, by name; what has none has no rows

COLUMNS = ["round", "client", "name", "index", "value"]


def record(directory: Path, scale: float) -> None:
    """Two rounds of clients 0 and 2 of three: a number each, and a matrix."""
    table = DiagnosticsTable(3)
    for finished in (1, 2):
        table.add(finished, "drift", ("K",), [0, 2], scale * finished * np.array([1.0, 3.0]))
        table.add(finished, "agreement", ("K", "K"), [0, 2], np.array([[1, 0.5], [0.5, 1]]))
    (directory / "diagnostics.parquet").write_bytes(table.pack())


@pytest.fixture
def two(project: Project) -> Project:
    """Seeds 0 and 1 of mine, of which both recorded; fedavg, which does not; a run that has not finished."""
    rows = {"mine": {"method": {"name": "fedprox"}}, "fedavg": None}
    project.declare(methods=rows, axes={"seed": [0, 1, 2]})
    for seed in (0, 1):
        record(project.add("mine", {1: accuracy((0.5, 0.5))}, method="fedprox", seed=seed), 1 + seed)
        project.add("fedavg", {1: accuracy((0.5, 0.5))}, seed=seed)
    project.add("mine", None, method="fedprox", seed=2)
    project.collect()
    return project


def test_of_all_runs_of_an_experiment(two: Project) -> None:
    frame = diagnostics(two.workspace, two.name)
    assert list(frame) == ["method", "seed", *COLUMNS]
    first = frame[frame["seed"] == 0].drop(columns=["method", "seed"])
    assert first.values.tolist() == [
        row
        for t in (1, 2)
        for row in (
            [t, 0, "drift", 0, t], [t, 2, "drift", 0, 3 * t],
            [t, 0, "agreement", 0, 1], [t, 0, "agreement", 2, 0.5], [t, 2, "agreement", 0, 0.5], [t, 2, "agreement", 2, 1],
        )
    ]  # fmt: skip
    drift = diagnostics(two.workspace, two.name, "drift")
    places = itertools.product((0, 1), (1, 2), (0, 2))
    assert drift.values.tolist() == [
        ["mine", seed, t, k, "drift", 0, (1 + seed) * t * (1 + k)] for seed, t, k in places
    ]
    assert len(frame) == 3 * len(drift)


def test_without_any_there_is_an_empty_frame_of_what_was_collected(project: Project) -> None:
    project.declare(methods={"fedavg": None}, axes={"seed": [0]})
    with pytest.raises(FedshiftError, match="have not been collected"):
        diagnostics(project.workspace, project.name)
    project.add("fedavg", {1: accuracy((0.5, 0.5))}, seed=0)
    project.collect()
    frame = diagnostics(project.workspace, project.name)
    assert list(frame) == ["method", "seed", *COLUMNS] and not len(frame)


def test_the_page_reads_them(two: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the project's folder, of its experiment."""
    block = python_block("extend.md", "import diagnostics")
    monkeypatch.chdir(two.workspace.root)
    defined: dict[str, object] = {}
    exec(block.replace('"mine", ', f'"{two.name}", '), defined)
    assert defined["drift"].loc[2, ("mine", 2)] == 9


# ---- what commands show is collected again where more is finished or declared otherwise


def at_home(project: Project, cell: Cell) -> Path:
    """A finished run where the experiment's file looks for it."""
    rounds = {1: accuracy((0.5, 0.5), 0.5)}
    made = project.add(cell.label, rounds, spec=cell.spec, **cell.axes)
    return made.rename(project.workspace.run(cell.spec.run_name).path)


def test_runs_finished_since_and_renamed_rows_are_shown(project: Project) -> None:
    def finished() -> dict[str, int]:
        runs = collected_or_archived(project.workspace, project.name).runs
        return {str(method): int((of["state"] == "finished").sum()) for method, of in runs.groupby("method")}

    axes = {"target": ["ink"], "seed": [0, 1]}
    project.declare(methods={"fedavg": None}, axes=axes)
    one, other = expand(project.workspace, load(project.workspace, project.name))
    at_home(project, one)
    assert finished() == {"fedavg": 1}
    at_home(project, other)
    assert finished() == {"fedavg": 2}
    project.declare(methods={"plain": {"method": {"name": "fedavg"}}}, axes=axes)
    file = project.workspace.experiments / f"{project.name}.yaml"
    os.utime(file, (file.stat().st_mtime + 60,) * 2)
    assert finished() == {"plain": 2}


def test_collected_results_of_runs_that_are_gone_are_kept(
    project: Project, capfd: pytest.CaptureFixture[str]
) -> None:
    """Of two runs one is deleted, as after `dvc pull` of collected results, and the file is written again."""
    project.declare(methods={"fedavg": None}, axes={"target": ["ink"], "seed": [0, 1]})
    one, _ = map(partial(at_home, project), expand(project.workspace, load(project.workspace, project.name)))
    assert (collected_or_archived(project.workspace, project.name).runs["state"] == "finished").all()
    shutil.rmtree(one)
    file = project.workspace.experiments / f"{project.name}.yaml"
    os.utime(file, (file.stat().st_mtime + 60,) * 2)
    assert not capfd.readouterr().err
    assert (collected_or_archived(project.workspace, project.name).runs["state"] == "finished").all()
    assert f"fedshift collect {project.name}" in capfd.readouterr().err


def test_gathered_results_stay_where_no_run_is(project: Project) -> None:
    collected = project.trained({("fedavg", "ink", 0): 0.5}, evaluations=["cka"])
    evaluate(project, collected, "cka", "cka", lambda run: [{"client": 0, "cka": 0.5}])
    file = project.workspace.evaluated(project.name) / "cka.parquet"
    data = file.read_bytes()
    shutil.rmtree(project.workspace.results / "runs")
    assert "stays as it is" in fedshift(project.workspace.root, "evaluate", project.name).output
    assert file.read_bytes() == data


def test_a_number_of_an_evaluation_where_two_rows_share_a_run(project: Project) -> None:
    """Divergences of pairs of clients, not of a client and its copy."""

    def rows(run: dict[str, Any]) -> list[dict[str, Any]]:
        return [{"client": k, "place": 1, "mean": [float(k)], "variance": [1.0]} for k in range(3)]

    found = []
    for again in ("", "again"):
        rows_of = dict.fromkeys(filter(None, ("fedavg", again)))
        project.declare(methods=rows_of, axes={"seed": [0]}, evaluations=["activations"])
        if again:
            project.cells.append(project.cells[0]._replace(label=again))
        else:
            project.add("fedavg", {1: accuracy((0.5, 0.5), 0.5)}, seed=0)
        collected = project.collect()
        evaluate(project, collected, "activations", "activations", rows)
        found.append({*measured(project.workspace, collected, "activations.low")})
    assert found[0] == found[1]


def test_runs_are_compared_with_as_many_clients_as_their_data_set_has() -> None:
    rows = [
        {
            "data.dataset": data,
            "seed": seed,
            "round": 1,
            "client": client,
            INDEX: 0,
            "value": float(seed * client),
        }
        for data, clients in (("digits", 2), ("pacs", 4))
        for seed in (0, 1)
        for client in range(clients)
    ]
    frame = _apart(pd.DataFrame(rows), ["data.dataset", "seed", "round"], "seed")
    assert frame.groupby("data.dataset")["value"].mean().to_dict() == {"digits": 0.5, "pacs": 1.5}


def test_all_metrics_are_asked_for_clients_that_they_leave_out(project: Project) -> None:
    project.declare(methods=dict.fromkeys(("fedavg", "fedbn")), axes={"target": ["ink"], "seed": [0]})
    cells = expand(project.workspace, load(project.workspace, project.name))
    for cell, metric in zip(cells, ("accuracy", "loss"), strict=True):
        file = at_home(project, cell) / "metrics.parquet"
        frame = pq.read_table(file).to_pandas()
        frame.loc[(frame["client"] == 1) & (frame["metric"] == metric), "value"] = np.nan
        pq.write_table(pa.Table.from_pandas(frame, SCHEMA), file)
    found = results(project.name, ["id", "loss.id"], root=project.workspace.root)
    assert found["clients"].tolist() == ["1 of 2", "1 of 2"]
