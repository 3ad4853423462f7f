"""Collected files hold every record once, and every planned run, finished or not."""

from __future__ import annotations

import json

import pyarrow.parquet as pq
import pytest

from fedshift.analysis.collect import RECORDS, collect, read
from fedshift.errors import FedshiftError

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


def test_an_axis_of_lists_is_kept_as_text(project: Project) -> None:
    project.declare(methods={"fedavg": None}, axes={"mixed": [1, "x"]})
    for value in (1, "x"):
        project.add("fedavg", {0: accuracy((0.5, 0.5))}, mixed=value)
    assert project.collect().runs["mixed"].tolist() == ["1", '"x"']


def test_mistakes_name_the_cure(project: Project) -> None:
    project.declare(methods={"fedavg": None}, axes={"seed": [0]})
    with pytest.raises(FedshiftError, match="fedshift collect toy"):
        read(project.workspace, "toy")
    project.add("fedavg", None, seed=0)
    plan = project.plan()
    project.declare("other", methods={"fedavg": None}, axes={"seed": [0]})
    with pytest.raises(FedshiftError, match="no experiment 'other'"):
        collect(project.workspace, "other", plan)
