"""What is shown of a run's records, and under which names."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from fedshift.cli.track import _metrics
from fedshift.federation import checkpoint
from fedshift.federation.records import BINS, SCHEMA, Statistics, StatisticsTable
from fedshift.planning.planfile import Cell, Run
from fedshift.storage.workspace import Workspace
from fedshift.testing.toys import method, small, spec
from fedshift.tracking.pages import followed
from fedshift.tracking.points import Point, final_points, points
from fedshift.tracking.publish import Follower
from tests.tracking.conftest import stored

TESTED = {"split": "random", "fractions": [0.8, 0.1, 0.1]}


def row(
    finished: int, stage: str, client: int, split: str, metric: str, value: float, model: str = "global"
) -> dict[str, object]:
    place = {"round": finished, "stage": stage, "model": model, "member": 0, "client": client, "split": split}
    return {**place, "metric": metric, "value": value, "n": 1, "time": 1000.0 + finished}


def test_points_are_means_over_clients_and_sums_of_bytes() -> None:
    tested = [(0, "test", 0.5), (1, "test", 1.0), (1, "val", 0.25), (-1, "target", 0.125)]
    rows = [row(3, "post_agg", client, split, "accuracy", value) for client, split, value in tested]
    rows += [row(3, "cost", -1, "", name, value) for name, value in (("bytes_up", 7.0), ("bytes_down", 8.0))]
    means = {"acc/id": 0.75, "acc/val": 0.25, "acc/ood": 0.125, "cost/bytes": 15.0}
    found = points(pa.Table.from_pylist(rows, SCHEMA), partition=TESTED)
    assert set(found) == {Point(name, 3, value, 1003000) for name, value in means.items()}


def test_computed_metrics_stand_beside_accuracy() -> None:
    """Two clients and a held-out domain with two members, of classes (3, 1) each: recalls by hand, the times of the accuracies."""
    correct = {(0, 0): (3, 0), (0, 1): (0, 1), (0, -1): (3, 1), (1, -1): (3, 0)}  # (member, client)
    rows, table = [], StatisticsTable()
    for (member, client), right in correct.items():
        split, of = "test" if client >= 0 else "target", np.zeros(BINS)
        rows.append({**row(3, "post_agg", client, split, "accuracy", sum(right) / 4), "member": member})
        statistics = Statistics(np.array([3, 1]), np.array(right), np.zeros(2), of, of, of)
        table.add(3, "post_agg", "global", client, split, statistics, member=member)
    table.add(4, "post_agg", "global", 0, "test", statistics)  # of a round whose records are not here
    read = pq.read_table(io.BytesIO(table.pack()))
    records = pa.Table.from_pylist(rows, SCHEMA)
    plain = points(records, partition=TESTED)
    assert points(records, read, partition=TESTED) == plain
    found = points(records, read, ["balanced_accuracy", "ece"], partition=TESTED)
    assert set(found) - set(plain) == {
        Point("balanced_accuracy/id", 3, 0.5, 1003000),
        Point("balanced_accuracy/ood", 3, 0.75, 1003000),
    }  # and no calibration error of bins without samples


@pytest.mark.parametrize(
    ("partition", "name"),
    [
        ({"split": "random", "fractions": [0.9, 0.1, 0.0]}, "acc/id"),
        ({"split": "official", "fractions": [0.8, 0.1, 0.1]}, "acc/id"),
        (TESTED, "acc/val"),
    ],
)
def test_validation_is_in_distribution_only_where_no_test_part_is_declared_and_own_models_go_first(
    partition: dict[str, Any], name: str
) -> None:
    own = row(1, "post_train", 0, "val", "accuracy", 0.9, "personal")
    rows = [row(1, "post_agg", 0, "val", "accuracy", 0.1), own]
    found = points(pa.Table.from_pylist(rows, SCHEMA), partition=partition)
    assert found == [Point(name, 1, 0.9, 1001000)]


def test_a_finished_run_has_accuracies_by_domain_of_its_clients() -> None:
    """Two clients of one domain, one of another, one of both; one of a third that has validation images alone."""
    rows = [
        row(last, "post_agg", client, "test", "accuracy", value)
        for last, values in ((0, (0.0, 0.0, 0.0, 0.0)), (5, (0.5, 1.0, 0.25, 0.125)))
        for client, value in enumerate(values)
    ]
    rows += [row(5, "post_agg", 4, "val", "accuracy", 0.75)]
    domains = (["art"], ["art"], ["o'clock"], ["art", "o'clock"], ["photo"])
    clients = [{"client": k, "domains": theirs, "test": int(k < 4)} for k, theirs in enumerate(domains)]
    summary = {
        "spec": {"partition": TESTED},
        "costs": {"seconds": 2.0},
        "best_round": {"first": 0},
        "clients": clients,
    }
    found = {point.name: point.value for point in final_points(summary, pa.Table.from_pylist(rows, SCHEMA))}
    assert found == {
        "acc_final/id": 1.875 / 4, "acc_final/id.art": 0.75, "acc_final/id.o_clock": 0.25, "acc_best/id": 0.0,
        "cost/total_bytes": 0.0, "cost/total_seconds": 2.0,
    }  # fmt: skip


def test_labels_are_parameters_and_tags_and_each_axis_is_a_parameter() -> None:
    spec = {"seed": 3, "data": {"target": "photo"}, "local": {"lr": 0.1}, "method": {"params": {"mu": 0.5}}}
    fields = {**dict.fromkeys(Run._fields, 0), "digest": "d", "code": "c", "dataset": "pacs"}
    run = Run(**{**fields, "method": "fedprox", "target": "photo", "seed": 3, "spec": json.dumps(spec)})
    axes = json.dumps({"target": "photo", "seed": 3, "mu": 0.5})
    cells = [Cell("hfedf/table2", "prox", axes, "d"), Cell("other", "fedprox", axes, "d")]
    (one,) = followed([run, run._replace(digest="unused")], cells)
    labels = {
        "method": "fedprox",
        "dataset": "pacs",
        "target": "photo",
        "seed": "3",
        "variant": "prox, mu=0.5",
    }
    assert one.params(spec) == {**labels, "mu": "0.5", "local.lr": "0.1"}
    assert (
        replace(one, axes={"share (%)": "10"}).params({})["share ___"] == "10"
    )  # a name that MLflow accepts
    tags = {**labels, "digest": "d", "code": "c", "experiments": "hfedf/table2, other"}
    assert one.tags.items() >= tags.items()
    assert (one.page, one.name) == ("pacs/hfedf-table2", "prox, mu=0.5 | photo | seed 3")


# ---- metrics that tables show are computed from segments while a run is trained, and arrive in the store once


@pytest.mark.parametrize("metrics", [(), ("ece", "worst_class")])
def test_segments_of_a_running_run_give_their_metrics(tmp_path: Path, metrics: tuple[str, ...]) -> None:
    run = spec(federation={"rounds": 3})
    directory = tmp_path / "results" / "run"
    federation = small(run, method("fedavg"))
    fields = {**dict.fromkeys(Run._fields, 0), "digest": "d", "code": "c", "dataset": "digits", "target": "a"}
    planned = Run(**{**fields, "method": "fedavg", "directory": "results/run", "spec": run.model_dump_json()})
    cells = [Cell("demo", "fedavg", json.dumps({"seed": 0}), "d")]
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    follower = Follower(Workspace(tmp_path), followed([planned], cells), uri, metrics)
    for _ in federation.run():
        checkpoint.save(federation, directory / "checkpoint", directory / "segments", "run")
        list(follower.sweep())
        assert not follower.problem
    there = stored(tmp_path / "mlflow.db")
    names = [(metric, step) for _, metric, step, *_ in there]
    assert len(set(names)) == len(names)
    for metric in ("acc", *metrics):
        assert [step for name, step in names if name == f"{metric}/id"] == [0, 1, 2, 3]
        assert [step for name, step in names if name == f"{metric}/ood"] == [0, 1, 2, 3]
    assert any("ece" in name for name, _ in names) == bool(metrics)


def test_what_tables_show_is_computed(tmp_path: Path) -> None:
    (tmp_path / "experiments").mkdir()
    declared = {
        "title": "A", "protocol": "digits", "methods": {"fedavg": None}, "axes": {"seed": [0]},
        "tables": {"first": {"metrics": ["ood", "ece.ood", "loss.id"]}, "second": {"metrics": ["ece.worst", "confidence.std"]}},
    }  # fmt: skip
    (tmp_path / "experiments" / "demo.yaml").write_text(yaml.safe_dump(declared))
    cells = [Cell("demo", "fedavg", "{}", "d")] * 2
    assert _metrics(Workspace(tmp_path), cells) == ("ece", "confidence")
