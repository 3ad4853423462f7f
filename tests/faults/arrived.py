"""What MLflow holds, against what the runs recorded."""

import contextlib
import json
import sqlite3
from collections.abc import Container
from pathlib import Path

from fedshift.analysis.collected import timed_records
from fedshift.planning.planfile import Run
from fedshift.storage.rundir import RunDirectory
from fedshift.tracking.points import final_points, points

Row = tuple[str, int, int, float]  # metric, step, time in milliseconds, value
QUERY = """
SELECT metrics.key, metrics.step, metrics.timestamp, metrics.value FROM metrics
JOIN tags AS d ON d.run_uuid = metrics.run_uuid AND d.key = 'digest' AND d.value = ?
"""


def recorded(directory: Path) -> list[Row]:
    """Points of a finished run."""
    records = timed_records(RunDirectory(directory))
    summary = json.loads((directory / "summary.json").read_text())
    shown = [*points(records, partition=summary["spec"]["partition"]), *final_points(summary, records)]
    return sorted((point.name, point.round, point.time, point.value) for point in shown)


def timeless(rows: list[Row]) -> list[Row]:
    """`rows` without times and measurements of the machine."""
    measured = ("machine/", "cost/total_seconds")
    return [(name, step, 0, value) for name, step, _, value in rows if not name.startswith(measured)]


def assert_each_point_once(root: Path, runs: list[Run], database: Path, anew: Container[Path] = ()) -> int:
    """Every point of every run is in the store, to the last bit, and no row more. Returns how many there are.

    anew: folders of runs that started anew after some of their points had arrived, whose times then are of two lives
    """
    total = 0
    with contextlib.closing(sqlite3.connect(database)) as store:
        for run in runs:
            there: list[Row] = sorted(store.execute(QUERY, (run.digest,)))
            count = len(there)
            expected = recorded(root / run.directory)
            if root / run.directory in anew:
                assert [row[:2] for row in there] == [row[:2] for row in expected], run.directory
                there, expected = timeless(there), timeless(expected)
            differ = sorted(set(there) ^ set(expected))
            assert there == expected, f"{run.directory} in MLflow, and as recorded: {differ[:9]}"
            total += count
        (every,) = store.execute("SELECT count(*) FROM metrics").fetchone()
        statuses = {status for (status,) in store.execute("SELECT status FROM runs")}
    assert every == total > 0
    assert statuses == {"FINISHED"}
    return total
