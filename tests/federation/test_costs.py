"""What a run counts of itself: bytes that travel, passes of its networks, times beside its records."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import torch

from fedshift.federation.cost import peak_memory_mb
from fedshift.federation.loop import Federation
from fedshift.federation.records import SCHEMA, reproducible, timed, timings
from fedshift.testing.toys import finish, method, small, spec


@pytest.mark.parametrize(
    ("name", "extra", "bn_travels"),
    [
        ("fedavg", 0, True),
        ("fedprox", 0, True),
        ("ditto", 0, True),
        ("fedbn", 0, False),
        ("scaffold", 1, True),
    ],
)
def test_bytes(name: str, extra: int, bn_travels: bool) -> None:
    """Per round and client 4 bytes for each travelling float; SCAFFOLD adds one control each way."""
    federation = finish(small(spec(), method(name)))
    layout = federation.layout
    floats = layout.size - (0 if bn_travels else layout.kind("bn_affine", "bn_statistic").size)
    cost = [row for row in federation.records.rows if row["stage"] == "cost" and row["round"] == 1]
    counted = {row["metric"]: row["value"] for row in cost}
    assert counted["bytes_down"] == 3 * 4 * (floats + extra * layout.P)
    assert counted["bytes_up"] == 3 * 4 * (floats + extra * layout.P)
    assert counted["images"] == 36


def test_nothing_travels_in_local() -> None:
    federation = finish(small(spec(), method("local")))
    assert {row["value"] for row in federation.records.rows if row["metric"].startswith("bytes")} == {0.0}


TRAIN, VAL = 36, 12  # images of the three toy clients


def counted(federation: Federation) -> list[tuple[float, ...]]:
    """Forward and backward passes by round."""
    ways = ("forward_passes", "backward_passes")
    found = {(row["round"], row["metric"]): row["value"] for row in federation.records.rows}
    return [tuple(found[t + 1, way] for way in ways) for t in range(federation.round)]


@pytest.mark.parametrize(
    ("name", "hp", "forward", "backward"),
    [
        ("fedavg", {}, TRAIN, TRAIN),
        ("central", {}, TRAIN, TRAIN),
        ("ditto", {}, 2 * TRAIN, 2 * TRAIN),  # both models on every batch
        ("moon", {}, 3 * TRAIN, TRAIN),  # and the global and the last model, without gradients
        ("feddg_ga", {}, TRAIN + 2 * VAL, TRAIN),  # the received model and the trained one
        ("fediir", {}, 2 * TRAIN, TRAIN),  # the mean gradient of the head
        ("partialfed", {}, 2 * TRAIN, 2 * TRAIN),  # the gates' epoch
        ("stablefdg", {"size": 0, "p": 0.0, "attention": "none"}, TRAIN, TRAIN),  # by its parameters
    ],
)
def test_passes_of_a_round(name: str, hp: dict[str, Any], forward: float, backward: float) -> None:
    run = spec(local={"batch": 4}, federation={"rounds": 3})
    assert counted(finish(small(run, method(name, **hp))))[-1] == pytest.approx((forward, backward))


def test_evaluation_is_not_counted() -> None:
    every, last = (spec(federation={"rounds": 2}, evaluation={"every": n, "keep": "none"}) for n in (1, 2))
    assert counted(finish(small(every, method("ditto")))) == counted(finish(small(last, method("ditto"))))


def records(began: float) -> pa.Table:
    """Of round 0 and two rounds, the second twice as long."""
    place = {"model": "", "member": 0, "client": -1, "split": "", "n": 0}
    rows = [{**place, "round": 0, "stage": "post_agg", "metric": "accuracy", "value": 0.1, "time": began}]
    for number, seconds in ((1, 2.0), (2, 4.0)):
        began += seconds
        told = {**place, "round": number, "time": began}
        rows += [
            {**told, "stage": "post_agg", "metric": "accuracy", "value": number / 10},
            {**told, "stage": "machine", "metric": "seconds", "value": seconds},
            {**told, "stage": "machine", "metric": "peak_memory_mb", "value": 7.0},
        ]
    return pa.Table.from_pylist(rows, SCHEMA)


def test_equal_runs_leave_equal_records_whenever_they_ran() -> None:
    assert reproducible(records(100.0)).equals(reproducible(records(5000.0)))
    assert reproducible(records(0.0))["metric"].to_pylist() == ["accuracy"] * 3


def test_times_come_back() -> None:
    whole = records(100.0)
    joined = timed(reproducible(whole), timings(whole), 0.0)
    rows = {(row["round"], row["metric"]): row for row in joined.to_pylist()}
    assert len(rows) == len(joined) == len(whole)
    assert [rows[number, "accuracy"]["time"] for number in (1, 2)] == [102.0, 106.0]
    assert rows[0, "accuracy"]["time"] == 102.0  # the untrained model: when the first round ended
    assert rows[2, "seconds"]["value"] == 4.0


@pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="Linux alone says what a process took at most"
)
def test_peak_memory_is_what_the_system_says() -> None:
    line = next(
        line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")
    )
    assert peak_memory_mb(torch.device("cpu")) == pytest.approx(int(line.split()[1]) / 1024, rel=0.02)
