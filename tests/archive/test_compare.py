"""A run trained here beside the archived one."""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from fedshift.archive.compare import NOISE, compare
from fedshift.archive.file import METRICS, Archived
from fedshift.archive.store import unpacked
from fedshift.common.files import write_json
from fedshift.storage.rundir import RunDirectory
from fedshift.storage.workspace import Workspace
from tests.archive.conftest import with_summary, with_table


@pytest.fixture
def run(here: Workspace, archived: Archived) -> RunDirectory:
    return unpacked(here, archived)


def other_class(summary: dict[str, Any]) -> None:
    summary["environment"]["capability"] = "another"
    summary["hashes"]["weights_last"] = "0" * 64


def lower(table: pa.Table, points: float) -> pa.Table:
    """The records with all accuracies of the held-out domain lower, and measured later."""
    at = pc.and_(pc.equal(table["metric"], "accuracy"), pc.equal(table["split"], "target"))
    values = pc.if_else(at, pc.subtract(table["value"], points / 100), table["value"])
    table = table.set_column(table.column_names.index("time"), "time", pc.add(table["time"], 9.0))
    return table.set_column(table.column_names.index("value"), "value", values)


def test_the_same_bits_are_equal_whatever_the_time(run: RunDirectory, archived: Archived) -> None:
    later = with_table(archived, METRICS, lambda table: lower(table, 0))
    later = with_summary(later, lambda summary: summary["costs"].update(seconds=99.0))
    result = compare(run, later)
    assert result.equal and result.same_code and result.same_class and result.points == 0 and result.passed
    assert str(result) == "equal bit for bit (same machine class)"


@pytest.mark.parametrize(
    ("points", "elsewhere", "passed", "said"),
    [
        (1, False, False, "differs by 1.0 points after the last round, within 5 (same machine class)"),
        (NOISE - 1, True, True, "within"),
        (NOISE + 1, True, False, "beyond"),
    ],
)
def test_only_another_class_may_differ_and_by_the_noise(
    run: RunDirectory, archived: Archived, points: float, elsewhere: bool, passed: bool, said: str
) -> None:
    other = with_summary(archived, other_class) if elsewhere else archived
    result = compare(run, with_table(other, METRICS, lambda table: lower(table, points)))
    assert (result.same_class, result.passed, result.equal) == (not elsewhere, passed, False)
    assert result.points == pytest.approx(points) and said in str(result)


def test_other_weights_are_other_bits_and_other_sets_no_comparison(
    run: RunDirectory, archived: Archived
) -> None:
    result = compare(run, with_summary(archived, lambda summary: summary["hashes"].update(weights_last="0")))
    assert not result.equal and result.points == 0 and not result.passed
    other = with_table(archived, METRICS, lambda table: table.filter(pc.not_equal(table["split"], "target")))
    result = compare(run, other)
    assert not result.passed and str(result) == "tested other models or sets (same machine class)"


@pytest.mark.parametrize(
    ("ours", "theirs", "same"),
    [("a1", "a1", True), ("a1", "b2", False), ("a1 +", "a1 +", False), ("", "", False), (None, None, False)],
)
def test_the_same_code_is_one_commit_without_changes(
    run: RunDirectory, archived: Archived, ours: str | None, theirs: str | None, same: bool
) -> None:
    other = with_summary(archived, lambda summary: summary["environment"].update(commit=theirs))
    summary = run.summary() or {}
    write_json(run.summary_file, {**summary, "environment": {**summary["environment"], "commit": ours}})
    assert compare(run, other).same_code is same


def test_steps_by_graphs_are_another_class(run: RunDirectory, archived: Archived) -> None:
    """A run that did not note it was trained without."""
    assert archived.machine.graph == "off" and "graph" not in str(archived.machine)
    other = with_summary(archived, lambda summary: summary["environment"].update(graph="auto"))
    assert str(other.machine) == f"{archived.machine}, CUDA graphs"
    assert not compare(run, other).same_class
    older = with_summary(archived, lambda summary: summary["environment"].pop("graph"))
    assert compare(run, older).same_class


def test_what_was_resumed_on_another_class_is_of_none(run: RunDirectory, archived: Archived) -> None:
    """Where it was resumed nobody knows."""
    resumed = {"earlier": ["cpu AVX2, threads: 1"]}
    other = with_summary(archived, lambda summary: summary["environment"].update(resumed))
    summary = run.summary() or {}
    write_json(run.summary_file, {**summary, "environment": {**summary["environment"], **resumed}})
    assert not compare(run, other).same_class
