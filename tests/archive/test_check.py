"""What `check` refuses, and where, of files whose hashes are all right."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from fedshift.archive.file import INDEX, METRICS, STATISTICS, SUMMARY, Archived, check, read
from fedshift.archive.store import add
from fedshift.common.errors import FedshiftError
from fedshift.common.registry import get
from fedshift.experiments.task import Task, place, write_result
from fedshift.storage.workspace import Workspace
from tests.archive.conftest import rewritten, with_summary, with_table

Doctor = Callable[[Archived], Archived]


def refused(workspace: Workspace, archived: Archived, *parts: str) -> None:
    with pytest.raises(FedshiftError) as error:
        check(workspace, read(archived.path))
    for part in (str(archived.path), *parts):
        assert part in str(error.value)


def summary(change: Callable[[dict[str, Any]], object]) -> Doctor:
    return lambda old: with_summary(old, change)


def table(name: str, change: Callable[[pa.Table], pa.Table]) -> Doctor:
    return lambda old: with_table(old, name, change)


def without(values: pa.Table) -> pa.Table:
    return values.drop_columns(["value"])


@pytest.mark.parametrize(
    ("doctor", "said"),
    [
        (summary(lambda of: of["spec"]["local"].update(lr=0.5)), (SUMMARY, "do not make the digest")),
        (summary(lambda of: of["spec"].update(speed=1)), (f"{SUMMARY}: spec", "unknown key 'speed'")),
        (summary(lambda of: of.update(digest="0" * 16)), (SUMMARY, "run id is 0000000000000000")),
        (summary(lambda of: of.pop("hashes")), ("'hashes' is missing",)),
        (lambda old: rewritten(old, {SUMMARY: b"[]"}), (SUMMARY,)),
        (lambda old: rewritten(old, {SUMMARY: b"{"}), (SUMMARY, "is not a summary of a run")),
        (lambda old: rewritten(old, finished=2e9), (INDEX, "finished is 2000000000.0, and the run was at ")),
        (lambda old: rewritten(old, {METRICS: b"PAR1"}), (METRICS, "is no Parquet file")),
        (table(METRICS, without), (METRICS, "column 'value' is not there, not double")),
        (table(METRICS, lambda of: without(of).append_column("value", of["n"])), (METRICS, "column 'value' is int64, not double")),
        (table(STATISTICS, lambda of: of.append_column("more", of["round"])), (STATISTICS, "has columns that no run records", "more")),
    ],
)  # fmt: skip
def test_what_was_archived_passes_and_what_was_doctored_does_not(
    here: Workspace, archived: Archived, doctor: Doctor, said: tuple[str, ...]
) -> None:
    check(here, read(archived.path))
    refused(here, doctor(archived), *said)


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


def test_results_of_evaluations_are_of_the_run(here: Workspace) -> None:
    """One that is named by its stamp passes; of other weights, of another run or without stamp it does not."""
    run = next(run for run in here.runs() if "fedbn" in run.path.parts)
    stamp = Task("fedbn", {}).stamp(run, run.summary() or {})
    for changed in ({}, {"weights": "0" * 64}, {"run": "0-0"}):
        path = place(run, stamp | changed)
        write_result(path, pa.table({"round": [1]}), stamp | changed)
        if changed:
            with pytest.raises(FedshiftError, match="is of another run, of other weights, or misnamed"):
                add(here, run)
        else:
            new, _ = add(here, run)
            assert new and path.relative_to(run.path).as_posix() in new.content
            new.path.unlink()
        path.unlink()
    write_result(place(run, stamp), pa.table({"round": [1]}), {})
    with pytest.raises(FedshiftError, match="has no stamp of an evaluation"):
        add(here, run)


def test_a_file_in_another_place_is_refused(here: Workspace, archived: Archived) -> None:
    elsewhere = here.archive / "digits" / "fedavg" / "plain" / "seed0" / archived.path.name
    elsewhere.parent.mkdir(parents=True)
    archived.path.rename(elsewhere)
    with pytest.raises(FedshiftError, match=r"belongs into .*fedbn/plain/seed0"):
        check(here, read(elsewhere))
