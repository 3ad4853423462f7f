"""Collected files hold every record once, and every planned run, finished or not."""

import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from fedshift.analysis import collect as module
from fedshift.analysis.collect import collect
from fedshift.analysis.collected import read
from fedshift.analysis.evaluated import restore
from fedshift.cli import main
from fedshift.common.errors import FedshiftError
from fedshift.common.files import write_json
from fedshift.federation.records import SCHEMA, STATISTICS

from .conftest import Project, accuracy, counted

TWO = {"methods": {"fedavg": None, "local": None}, "axes": {"target": ["a"], "seed": [0, 1]}}


def test_every_record_once_with_its_run(project: Project) -> None:
    project.declare(**TWO)
    for method in ("fedavg", "local"):
        for seed in (0, 1):
            value = 0.5 + 0.1 * seed
            project.add(
                method, {0: accuracy((0.1, 0.1)), 1: accuracy((value, value), ood=0.3)}, target="a", seed=seed
            )
    collected = project.collect()
    table = pq.read_table(project.workspace.metrics("toy"))
    assert table.column_names == ["method", "target", "seed", "digest", *SCHEMA.names]
    assert len(table) == 4 * (4 + 5) * 2  # 4 runs, 4 and 5 accuracies in rounds 0 and 1, each with a loss
    frame = table.to_pandas()
    kept = frame[(frame["method"] == "local") & (frame["seed"] == 1) & (frame["metric"] == "accuracy")]
    assert kept.loc[kept["client"] == -1, "value"].tolist() == [0.3]
    assert kept.loc[(kept["round"] == 1) & (kept["split"] == "test"), "value"].tolist() == [0.6, 0.6]
    assert collected.keys == ["method", "target", "seed"]
    assert collected.missing == []


def test_ten_runs_that_lack_are_named_and_the_others_counted(project: Project) -> None:
    project.declare(methods={"fedavg": None}, axes={"seed": [*range(13)]})
    for seed in range(13):
        project.add("fedavg", None if seed else {0: accuracy((0.5, 0.5))}, seed=seed)
    root, plan = str(project.workspace.root), str(project.plan())
    output = CliRunner().invoke(main, ["--root", root, "collect", "toy", "--plan", plan]).output
    assert "1 of 13 runs: " in output and output.count("not finished: ") == 10
    assert output.endswith("\nand 2 more: fedshift status --runs toy\n")


def test_a_run_without_summary_is_named_and_not_read(project: Project) -> None:
    project.declare(**TWO)
    for method in ("fedavg", "local"):
        project.add(method, {0: accuracy((0.5, 0.5))}, target="a", seed=0)
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
    assert json.loads(table.schema.metadata[b"missing"]) == names
    assert 0.9 not in table["value"].to_pylist()


@pytest.mark.parametrize("column", ["spec", "rounds"])
def test_what_older_code_collected_is_collected_anew(project: Project, column: str) -> None:
    project.declare(**TWO)
    for method in ("fedavg", "local"):
        for seed in (0, 1):
            project.add(method, {0: accuracy((0.5, 0.5))}, target="a", seed=seed)
    project.collect()
    path = project.workspace.metrics("toy").with_suffix(".runs.parquet")
    pq.write_table(pq.read_table(path).drop_columns([column]).replace_schema_metadata(), path)
    with pytest.raises(FedshiftError, match=rf"no column '{column}'\s+Run `fedshift collect toy` again"):
        read(project.workspace, "toy")
    assert project.collect().runs[column].notna().all()


def test_run_rows_carry_the_summary(project: Project) -> None:
    project.declare(methods={"fedbn": None}, axes={"d": [1, 2]})
    for d in (1, 2):
        project.add("fedbn", {0: accuracy((0.5, 0.5))}, sizes=(7, 9), bn="local", device="H200", d=d)
    runs = project.collect().runs
    assert runs["d"].tolist() == [1, 2]
    assert runs["bn"].tolist() == ["local", "local"]
    assert runs["hardware"].tolist() == ["H200", "H200"]
    assert [client["train"] for client in runs["clients"][0]] == [7, 9]
    assert runs["state_dict_bytes"].tolist() == [40, 40]


@pytest.mark.parametrize("trained", [1, None])
def test_rounds_are_those_that_a_run_trained(project: Project, trained: int | None) -> None:
    """Of two that it declares; a summary of before runs stopped early does not say."""
    project.declare(methods={"fedavg": None}, axes={"seed": [0]})
    path = project.add("fedavg", {0: accuracy((0.5, 0.5))}, seed=0) / "summary.json"
    stopped = {"rounds": trained} if trained else {}
    path.write_text(json.dumps({**json.loads(path.read_text()), **stopped}))
    assert project.collect().runs["rounds"].tolist() == [trained or 2]


def test_without_affinity_as_on_macos_runs_are_collected(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr("os.sched_getaffinity")
    project.declare(methods={"fedavg": None}, axes={"seed": [0]})
    project.add("fedavg", {0: accuracy((0.5, 0.5))}, seed=0)
    assert project.collect().runs["state"].tolist() == ["finished"]


def test_collecting_again_gives_the_same_bytes(project: Project) -> None:
    project.declare(methods={"fedavg": None}, axes={"seed": [0]})
    project.add("fedavg", {0: accuracy((0.5, 0.5))}, seed=0)
    project.collect()
    first = project.workspace.metrics("toy").read_bytes()
    project.collect()
    assert project.workspace.metrics("toy").read_bytes() == first


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


def test_a_run_made_again_is_read_again(project: Project) -> None:
    project.declare(methods={"fedavg": None}, axes={"seed": [0]})
    directory = project.add("fedavg", {0: accuracy((0.5, 0.5))}, seed=0)
    project.collect()
    summary = json.loads((directory / "summary.json").read_text())
    summary["environment"]["device"] = "H200"
    (directory / "summary.json").write_text(json.dumps(summary))
    assert project.collect().runs["hardware"].tolist() == ["H200"]


@pytest.mark.usefixtures("small_groups")
@pytest.mark.parametrize("statistics", [True, False])
def test_runs_that_were_pulled_are_restored_and_joined_by_new_ones(
    project: Project, statistics: bool
) -> None:
    """On another clone there are stamps and collected files, and no directories of the runs that made them."""
    many(project, without=(3,), statistics=statistics)
    before = project.collect()
    runs = project.workspace.results / "runs"
    summaries = {path: path.read_bytes() for path in runs.rglob("summary.json")}
    finished = {path.parent.name: json.loads(content) for path, content in summaries.items()}
    write_json(project.workspace.pack("0123").path, {"pack": "0123", "finished": finished, "failed": {}})
    shutil.rmtree(runs)
    assert (restore(project.workspace), restore(project.workspace)) == (SEEDS - 1, 0)
    assert {json.loads(path.read_text())["seed"] for path in runs.rglob("summary.json")} == {
        *range(SEEDS)
    } - {3}
    grown = [path.read_bytes() for path in files(project)]
    for path in project.workspace.results.glob("metrics/*"):
        path.unlink()
    project.collect()
    assert [
        path.read_bytes() for path in files(project)
    ] == grown  # records and statistics come back bit for bit
    assert before.missing == project.collect().missing
    many(project, statistics=statistics)
    assert project.collect().runs["state"].tolist() == ["finished"] * SEEDS


def test_a_failed_run_that_was_pulled_is_restored_with_its_reason(project: Project) -> None:
    """Else its stamp would be deleted, and the clone would train it."""
    project.declare(methods={"fedavg": None, "local": None}, axes={"seed": [0]})
    project.add("local", {0: accuracy((0.5, 0.25))}, seed=0)
    run = project.workspace.run_at(
        str(project.add("fedavg", None, seed=0).relative_to(project.workspace.root))
    )
    failure = {"kind": "FedshiftError", "text": "loss is NaN", "retry": False}
    run.fail(failure)
    project.collect()
    stamp = project.workspace.pack("0123")
    assert stamp.settle([run])
    shutil.rmtree(run.path)
    assert restore(project.workspace) == 0
    assert run.failure() == failure and stamp.settle([run])


def test_records_that_are_damaged_are_named_and_those_that_are_cut_off_count_as_missing(
    project: Project,
) -> None:
    project.declare(methods={"fedavg": None, "local": None}, axes={"seed": [0]})
    records = project.add("fedavg", {0: accuracy((0.5, 0.25))}, seed=0) / "metrics.parquet"
    project.add("local", {0: accuracy((0.5, 0.25))}, seed=0)
    whole = records.read_bytes()
    records.write_bytes(whole[:40] + whole[-4:])
    with pytest.raises(FedshiftError, match=r"metrics\.parquet: is not whole: ") as error:
        project.collect()
    assert f"Remove {records.parent}" in error.value.cure
    records.write_bytes(whole[:40])
    assert project.collect().runs["state"].tolist() == ["missing", "finished"]


def test_a_run_that_two_rows_share_is_restored_once(project: Project) -> None:
    project.declare(methods={"fedavg": None, "again": {"method": {"name": "fedavg"}}}, axes={"seed": [0]})
    directory = project.add("fedavg", {0: accuracy((0.5, 0.25))}, seed=0, statistics=counted(4))
    project.cells.append(project.cells[0]._replace(label="again"))
    collected = project.collect()
    assert len(pq.read_table(collected.path)) == 2 * len(pq.read_table(directory / "metrics.parquet"))
    summary = json.loads((directory / "summary.json").read_text())
    write_json(
        project.workspace.pack("0123").path,
        {"pack": "0123", "finished": {directory.name: summary}, "failed": {}},
    )
    before = {kind: pq.read_table(directory / f"{kind}.parquet") for kind in ("metrics", "statistics")}
    shutil.rmtree(directory)
    assert restore(project.workspace) == 1
    assert before["statistics"].equals(pq.read_table(directory / "statistics.parquet"))
    assert before["metrics"].to_pylist() == pq.read_table(directory / "metrics.parquet").to_pylist()
