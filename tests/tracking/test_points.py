"""What is shown of a run's records, and under which names."""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fedshift.federation.records import BINS, SCHEMA, Statistics, StatisticsTable
from fedshift.planning.planfile import Cell, Run
from fedshift.tracking.pages import followed
from fedshift.tracking.points import Point, final_points, points

TESTED = {"split": "random", "fractions": [0.8, 0.1, 0.1]}


def row(
    finished: int, stage: str, client: int, split: str, metric: str, value: float, model: str = "global"
) -> dict[str, object]:
    place = {"round": finished, "stage": stage, "model": model, "member": 0, "client": client, "split": split}
    return {**place, "metric": metric, "value": value, "n": 1, "time": 1000.0 + finished}


def test_points_are_means_over_clients_and_sums_of_bytes() -> None:
    rows = [
        row(3, "post_agg", 0, "test", "accuracy", 0.5),
        row(3, "post_agg", 1, "test", "accuracy", 1.0),
        row(3, "post_agg", 1, "val", "accuracy", 0.25),
        row(3, "post_agg", -1, "target", "accuracy", 0.125),
        row(3, "cost", -1, "", "bytes_up", 7.0),
        row(3, "cost", -1, "", "bytes_down", 8.0),
    ]
    assert set(points(pa.Table.from_pylist(rows, SCHEMA), partition=TESTED)) == {
        Point("acc/id", 3, 0.75, 1003000),
        Point("acc/val", 3, 0.25, 1003000),
        Point("acc/ood", 3, 0.125, 1003000),
        Point("cost/bytes", 3, 15.0, 1003000),
    }


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
    rows = [
        row(1, "post_agg", 0, "val", "accuracy", 0.1),
        row(1, "post_train", 0, "val", "accuracy", 0.9, "personal"),
    ]
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
    summary = {
        "spec": {"partition": TESTED},
        "costs": {"seconds": 2.0},
        "best_round": {"first": 0},
        "clients": [{"client": k, "domains": theirs, "test": int(k < 4)} for k, theirs in enumerate(domains)],
    }
    found = {point.name: point.value for point in final_points(summary, pa.Table.from_pylist(rows, SCHEMA))}
    assert found == {
        "acc_final/id": 1.875 / 4,
        "acc_final/id.art": 0.75,
        "acc_final/id.o_clock": 0.25,
        "acc_best/id": 0.0,
        "cost/total_bytes": 0.0,
        "cost/total_seconds": 2.0,
    }


def test_labels_are_parameters_and_tags_and_each_axis_is_a_parameter() -> None:
    spec = {"seed": 3, "data": {"target": "photo"}, "local": {"lr": 0.1}, "method": {"params": {"mu": 0.5}}}
    fields = {**dict.fromkeys(Run._fields, 0), "digest": "d", "code": "c", "dataset": "pacs"}
    run = Run(**{**fields, "method": "fedprox", "target": "photo", "seed": 3, "spec": json.dumps(spec)})  # type: ignore[arg-type]
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
    tags = {**labels, "digest": "d", "code": "c", "experiments": "hfedf/table2, other"}
    assert one.tags.items() >= tags.items()
    assert (one.page, one.name) == ("pacs/hfedf-table2", "prox, mu=0.5 | photo | seed 3")
