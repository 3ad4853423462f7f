"""Which cells of a table say that archived runs are in them."""

import pytest

from fedshift.analysis import tables
from fedshift.analysis.collected import ARCHIVE
from fedshift.analysis.page import blocks
from fedshift.experiments.load import load

from .conftest import Project, accuracy


def test_what_is_missing_has_no_mark(project: Project) -> None:
    """An average over two targets, of which one is archived and the other was not run."""
    project.declare(methods={"fedavg": None}, axes={"target": ["a", "b"], "seed": [0]}, tables={"t": {}})
    project.add("fedavg", {1: accuracy((0.5, 0.5), ood=0.3)}, target="a", seed=0)
    project.add("fedavg", None, target="b", seed=0)
    collected = project.collect()
    collected.runs.loc[collected.runs["target"] == "a", "source"] = ARCHIVE
    table = load(project.workspace, "toy").tables["t"]
    table = table.model_copy(update={"columns": ["target"], "metrics": ["ood"]})
    ((_, (grid,)),) = blocks([("t", tables.cells(project.workspace, collected, table))])
    assert [entry.ours for entry in grid.rows[0][1]] == ["30.0§", "missing", "missing"]


@pytest.mark.parametrize("archived", ["a", "b"])
def test_a_cell_counts_the_archived_runs_of_its_own_place(project: Project, archived: str) -> None:
    """Two targets and two seeds: the runs of one target come from the archive."""
    axes = {"target": ["a", "b"], "seed": [0, 1]}
    project.declare(methods={"fedavg": None}, axes=axes, tables={"t": {}})
    for target in axes["target"]:
        for seed in axes["seed"]:
            project.add("fedavg", {1: accuracy((0.5, 0.5), ood=0.3)}, target=target, seed=seed)
    collected = project.collect()
    collected.runs.loc[collected.runs["target"] == archived, "source"] = ARCHIVE
    table = load(project.workspace, "toy").tables["t"]
    table = table.model_copy(update={"columns": ["target"], "metrics": ["ood"]})
    cells = tables.cells(project.workspace, collected, table).set_index("target")
    assert cells["archived"].to_dict() == {"a": 0, "b": 0, "Average": 2} | {archived: 2}
