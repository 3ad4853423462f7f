"""Records without times, and times beside them, are all that was recorded."""

from __future__ import annotations

import pyarrow as pa

from fedshift.federation.records import SCHEMA, reproducible, timed, timings


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


def test_a_run_without_timings_has_the_time_that_is_given() -> None:
    joined = timed(reproducible(records(100.0)), SCHEMA.empty_table(), 9.0)
    assert joined["time"].to_pylist() == [9.0] * 3
