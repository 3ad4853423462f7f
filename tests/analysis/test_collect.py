"""Collected files hold every record once, and every planned run, finished or not."""

from __future__ import annotations

import json
import shutil

import pyarrow.parquet as pq
import pytest

from fedshift.analysis import collect as module
from fedshift.analysis.collect import collect, read
from fedshift.analysis.records import RECORDS
from fedshift.analysis.restore import restore
from fedshift.errors import FedshiftError
from fedshift.files import write_json
from fedshift.rundir import RunDirectory

from .conftest import Project, accuracy

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
    assert table.column_names == ["method", "target", "seed", "digest", "code", *RECORDS.names]
    assert len(table) == 4 * (4 + 5) * 2  # 4 runs, 4 and 5 accuracies in rounds 0 and 1, each with a loss
    frame = table.to_pandas()
    kept = frame[(frame["method"] == "local") & (frame["seed"] == 1) & (frame["metric"] == "accuracy")]
    assert kept.loc[kept["client"] == -1, "value"].tolist() == [0.3]
    assert kept.loc[(kept["round"] == 1) & (kept["split"] == "test"), "value"].tolist() == [0.6, 0.6]
    assert collected.keys == ["method", "target", "seed"]
    assert collected.missing == []


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


def test_what_older_code_collected_is_collected_anew(project: Project) -> None:
    project.declare(**TWO)
    for method in ("fedavg", "local"):
        for seed in (0, 1):
            project.add(method, {0: accuracy((0.5, 0.5))}, target="a", seed=seed)
    project.collect()
    path = project.workspace.metrics("toy").with_suffix(".runs.parquet")
    pq.write_table(pq.read_table(path).drop_columns(["spec"]).replace_schema_metadata(), path)
    with pytest.raises(FedshiftError, match=r"no column 'spec'\s+Run `fedshift collect toy` again"):
        read(project.workspace, "toy")
    assert project.collect().runs["spec"].notna().all()


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


SEEDS = 150  # more than two row groups


def many(project: Project, without: tuple[int, ...] = ()) -> None:
    """One run a seed, its accuracy the seed's; those in `without` have not finished."""
    project.runs.clear()
    project.cells.clear()
    project.declare(methods={"fedavg": None}, axes={"seed": list(range(SEEDS))})
    for seed in range(SEEDS):
        there = project.workspace.results.exists() and any(project.workspace.results.rglob(f"seed{seed}"))
        known = seed in without or there
        project.add("fedavg", None if known else {0: accuracy((seed / SEEDS,) * 2)}, seed=seed)


@pytest.fixture
def read_directories(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The seeds whose directories were read."""
    seeds: list[str] = []

    def of_run(run: RunDirectory) -> object:
        seeds.append(run.path.parent.name)
        return original(run)

    original = module.of_run
    monkeypatch.setattr(module, "of_run", of_run)
    return seeds


def test_only_new_runs_are_read_and_the_bytes_are_those_of_a_first_time(
    project: Project, read_directories: list[str]
) -> None:
    many(project, without=(0, 70, 149))
    assert len(project.collect().missing) == 3
    assert len(read_directories) == SEEDS - 3
    read_directories.clear()
    many(project)
    assert project.collect().missing == []
    assert read_directories == ["seed0", "seed70", "seed149"]
    files = [project.workspace.metrics("toy"), project.workspace.metrics("toy").with_suffix(".runs.parquet")]
    grown = [path.read_bytes() for path in files]
    for path in files:
        path.unlink()
    project.collect()
    assert [path.read_bytes() for path in files] == grown
    shown = pq.read_table(files[0], filters=[("split", "==", "val"), ("metric", "==", "accuracy")])
    assert shown["value"].to_pylist()[::2] == [seed / SEEDS for seed in range(SEEDS)]


def test_with_nothing_new_nothing_is_written(project: Project, read_directories: list[str]) -> None:
    many(project)
    project.collect()
    read_directories.clear()
    path = project.workspace.metrics("toy")
    before = path.stat().st_ino  # a write would be another file
    project.collect()
    assert (path.stat().st_ino, read_directories) == (before, [])


def test_a_run_made_again_is_read_again(project: Project, read_directories: list[str]) -> None:
    project.declare(methods={"fedavg": None}, axes={"seed": [0]})
    directory = project.add("fedavg", {0: accuracy((0.5, 0.5))}, seed=0)
    project.collect()
    summary = json.loads((directory / "summary.json").read_text())
    summary["environment"]["device"] = "H200"
    (directory / "summary.json").write_text(json.dumps(summary))
    assert project.collect().runs["hardware"].tolist() == ["H200"]
    assert read_directories == ["seed0", "seed0"]


def test_runs_that_were_pulled_are_restored_and_joined_by_new_ones(project: Project) -> None:
    """On another clone there are stamps and collected files, and no directories of the runs that made them."""
    many(project, without=(3,))
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
    grown = before.path.read_bytes()
    for path in project.workspace.results.glob("metrics/*"):
        path.unlink()
    project.collect()
    assert before.path.read_bytes() == grown  # records come back bit for bit
    many(project)
    assert project.collect().runs["state"].tolist() == ["finished"] * SEEDS


def test_files_that_do_not_belong_together_are_told_apart(project: Project) -> None:
    many(project, without=(0, 1))
    project.collect()
    records = project.workspace.metrics("toy").read_bytes()
    many(project, without=(1,))
    project.collect()
    project.workspace.metrics("toy").write_bytes(records)
    many(project)
    with pytest.raises(FedshiftError, match="does not fit"):
        project.collect()
