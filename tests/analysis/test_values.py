"""Collected files are read some runs at a time, and no run in two pieces."""

import pandas as pd
import pyarrow.parquet as pq
import pytest

from fedshift.analysis.collected import Collected, read
from fedshift.analysis.metrics.ece import ECE
from fedshift.analysis.quantities import PLACE, curves, reported_values

from .conftest import Project, accuracy, counted

SEEDS = 6
QUANTITIES = ["ece.ood", "ece.pooled", "loss.worst"]


@pytest.fixture
def collected(project: Project) -> Collected:
    """Six runs of three rounds."""
    project.declare(methods={"fedavg": None}, axes={"seed": [*range(SEEDS)]})
    for seed in range(SEEDS):
        rounds = {r: accuracy((0.1 * r, 0.05 * seed), ood=0.01 * (r + seed)) for r in range(3)}
        project.add("fedavg", rounds, seed=seed, statistics=counted(15, seed=seed))
    return project.collect()


@pytest.mark.parametrize("rows", [1, 7, 50])
def test_the_cut_of_the_file_changes_nothing(project: Project, collected: Collected, rows: int) -> None:
    """A run of 30 records and 15 sets is cut in the middle, or stands with others."""
    whole = curves(collected, QUANTITIES)
    for path in (collected.path, collected.statistics):
        pq.write_table(pq.read_table(path), path, row_group_size=rows)
    again = read(project.workspace, project.name)
    pd.testing.assert_frame_equal(curves(again, QUANTITIES), whole)
    parts = [*reported_values(again, ECE)]
    assert sum(part[PLACE].nunique() for part in parts) == SEEDS


def test_few_runs_are_in_memory_at_a_time(project: Project, collected: Collected) -> None:
    """Of groups that hold a run each, a part holds at most two: the last may go on in the next group."""
    pq.write_table(pq.read_table(collected.statistics), collected.statistics, row_group_size=15)
    parts = [*reported_values(read(project.workspace, project.name), ECE)]
    assert len(parts) >= SEEDS - 1 and max(part[PLACE].nunique() for part in parts) <= 2
