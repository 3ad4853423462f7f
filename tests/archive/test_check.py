"""What `check` refuses, and where, of files whose hashes are all right."""

from typing import Any

import pyarrow as pa
import pytest

from fedshift.archive.check import check
from fedshift.archive.file import INDEX, METRICS, STATISTICS, SUMMARY, Archived, read
from fedshift.archive.store import add
from fedshift.common.errors import FedshiftError
from fedshift.common.registry import get
from fedshift.evaluations.base import write
from fedshift.experiments.task import Task, place
from fedshift.storage.workspace import Workspace
from tests.archive.conftest import rewritten, with_summary, with_table


def refused(workspace: Workspace, archived: Archived, *parts: str) -> None:
    with pytest.raises(FedshiftError) as error:
        check(workspace, read(archived.path))
    for part in (str(archived.path), *parts):
        assert part in str(error.value)


def test_what_was_archived_passes(here: Workspace, archived: Archived) -> None:
    check(here, read(archived.path))


def test_a_doctored_specification_makes_another_digest(here: Workspace, archived: Archived) -> None:
    new = with_summary(archived, lambda summary: summary["spec"]["local"].update(lr=0.5))
    refused(here, new, SUMMARY, "do not make the digest")
    new = with_summary(archived, lambda summary: summary["spec"].update(speed=1))
    refused(here, new, f"{SUMMARY}: spec", "unknown key 'speed'")
    new = with_summary(archived, lambda summary: summary.update(digest="0" * 16))
    refused(here, new, SUMMARY, "digest is 0000000000000000")


def test_versions_that_nobody_declares_are_refused(
    here: Workspace, archived: Archived, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused_versions: dict[str, Any] = {**archived.index.versions, "method": 7}
    monkeypatch.setattr(get("methods", "fedbn"), "version", 8)
    refused(here, archived, f"{INDEX}: versions", "and the code declares 8")
    run = next(run for run in here.runs() if "fedbn" in run.path.parts)
    with pytest.raises(FedshiftError, match="was declared by other versions"):
        add(here, run)
    monkeypatch.undo()
    refused(here, rewritten(archived, versions=refused_versions), "do not make the digest")


def test_a_doctored_time_does_not_make_a_file_the_newest(here: Workspace, archived: Archived) -> None:
    refused(here, rewritten(archived, finished=2e9), INDEX, "finished is 2000000000.0, and the run was at ")


def test_results_of_evaluations_are_of_the_run(here: Workspace) -> None:
    """One that is named by its stamp passes; of other weights, of another run or without stamp it does not."""
    run = next(run for run in here.runs() if "fedbn" in run.path.parts)
    stamp = Task("fedbn", {}).stamp(run, run.summary() or {})
    for changed in ({}, {"weights": "0" * 64}, {"run": "0-0"}):
        path = place(run, stamp | changed)
        write(path, pa.table({"round": [1]}), stamp | changed)
        if changed:
            with pytest.raises(FedshiftError, match="is of another run, of other weights, or misnamed"):
                add(here, run)
        else:
            new, _ = add(here, run)
            assert new and path.relative_to(run.path).as_posix() in new.content
            new.path.unlink()
        path.unlink()
    write(place(run, stamp), pa.table({"round": [1]}), {})
    with pytest.raises(FedshiftError, match="has no stamp of an evaluation"):
        add(here, run)


def test_another_schema_is_refused_with_its_column(here: Workspace, archived: Archived) -> None:
    def without(table: pa.Table) -> pa.Table:
        return table.drop_columns(["value"])

    for file, change, *said in (
        (METRICS, without, "column 'value' is not there, not double"),
        (
            METRICS,
            lambda of: without(of).append_column("value", of["n"]),
            "column 'value' is int64, not double",
        ),
        (
            STATISTICS,
            lambda of: of.append_column("more", of["round"]),
            "has columns that no run records",
            "more",
        ),
    ):
        refused(here, with_table(archived, file, change), file, *said)
    refused(here, rewritten(archived, {METRICS: b"PAR1"}), METRICS, "is no Parquet file")


def test_a_summary_that_lacks_something_is_refused(here: Workspace, archived: Archived) -> None:
    refused(here, with_summary(archived, lambda summary: summary.pop("hashes")), "'hashes' is missing")
    refused(here, rewritten(archived, {SUMMARY: b"[]"}), SUMMARY)
    refused(here, rewritten(archived, {SUMMARY: b"{"}), SUMMARY, "is no summary of a run")


def test_a_file_in_another_place_is_refused(here: Workspace, archived: Archived) -> None:
    elsewhere = here.archive / "digits" / "fedavg" / "plain" / "seed0" / archived.path.name
    elsewhere.parent.mkdir(parents=True)
    archived.path.rename(elsewhere)
    with pytest.raises(FedshiftError, match=r"belongs into .*fedbn/plain/seed0"):
        check(here, read(elsewhere))
