"""The archive as a folder: locations, the newest file of a run, and conversion between runs and files.

A file has the same location as its run in results/runs: results-archive/<data
set>/<method>/<target>/seed<seed>/. A run that two experiments share is archived once.
"""

import functools
import io
import os
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fedshift.archive.file import METRICS, STATISTICS, SUMMARY, Archived, check, create, finished, read
from fedshift.common.errors import FedshiftError
from fedshift.common.files import built_once, write_bytes
from fedshift.common.parquet import read_parquet
from fedshift.spec import RunSpec, parse
from fedshift.storage.rundir import RunDirectory, Summary, rounds_trained
from fedshift.storage.workspace import Workspace

COLUMNS = ("run", "rounds", "px", "precision", "digest", "commit", "finished", "machine", "hours", "kB")
LARGE = 100_000  # bytes; sizes of runs: docs/share-results.md


def files(workspace: Workspace) -> list[Archived]:
    """All archived runs, in order. Raises FedshiftError for the first invalid file."""
    return [read(path) for path in sorted(workspace.archive.rglob("*.zip"))]


def paths(workspace: Workspace, run: str) -> list[Path]:
    """The archived files of a run (RunSpec.run_name); their content is not read."""
    digest = run.rpartition("/")[2].partition("-")[0]
    return [path for path in within(workspace.archived(run)) if path.name.startswith(f"{digest}-")]


def within(folder: Path) -> list[Path]:
    """The archived files in a folder, in order; their content is not read."""
    names = os.listdir(folder) if folder.is_dir() else ()  # glob compiles a pattern for every folder
    return [folder / name for name in sorted(names) if name.endswith(".zip")]


@functools.cache
def specification(path: Path) -> RunSpec:
    """The specification of an archived run, cached, as a file's name contains the hash of its content.

    Raises FedshiftError for an invalid file.
    """
    return parse(read(path).summary["spec"], f"{path}: {SUMMARY}: spec")


def archived(workspace: Workspace, directories: Iterable[str]) -> int:
    """The number of runs with these directories (below the workspace's root) that have an archived file."""
    names = (workspace.name_of(workspace.run_at(directory)) for directory in directories)
    return sum(bool(paths(workspace, name)) for name in names)


def of_run(workspace: Workspace, run: str) -> list[Archived]:
    """The archived files of a run (RunSpec.run_name), from several machines.

    Tables use the first, the newest.
    """
    files = map(read, paths(workspace, run))
    return sorted(files, key=lambda file: (-file.index.finished, file.hash))


def add(workspace: Workspace, run: RunDirectory) -> tuple[Archived | None, list[Archived]]:
    """Archive a finished run, as `keep` does. Raises FedshiftError for a run that does not pass `check`."""
    return keep(workspace, pack(workspace, run))


def keep(workspace: Workspace, new: Archived) -> tuple[Archived | None, list[Archived]]:
    """Write an archive file, made here or elsewhere, and remove the files of the run that it supersedes.

    Returns the file, or None if that or a newer one is present; and the removed files.

    Raises FedshiftError if it does not pass `check`.
    """
    check(workspace, new)
    present = {file.path: file for file in of_run(workspace, new.index.run)}
    removed = [file for file in superseded({**present, new.path: new}.values()) if file.path in present]
    written = new.path not in present and not any(outdated(new, file) for file in present.values())
    if written:
        write_bytes(new.path, new.data)
    for file in removed:
        file.path.unlink()
    return (new if written else None), removed


def pack(workspace: Workspace, run: RunDirectory) -> Archived:
    """The archive file of a finished run, not yet written.

    Summary and records are included byte for byte. Statistics, diagnostics and each evaluation's result are
    included up to LARGE bytes. Of larger statistics, the rounds with saved weights are included, which are
    the ones in tables.

    Raises FedshiftError if the run is not finished, or was declared by other versions than the installed
    ones.
    """
    if (summary := run.summary()) is None:
        raise FedshiftError(run.path, "is not finished", "Train it first; finished ones: fedshift list runs.")
    spec = parse(summary["spec"], str(run.summary_file))
    declared = spec.versions
    if spec.id_under(declared) != summary["digest"]:
        what = "was declared by other versions than the installed ones"
        raise FedshiftError(run.path, what, "Archive it with the code that trained it, or train it again.")
    content = {SUMMARY: run.summary_file.read_bytes(), METRICS: run.metrics.read_bytes()}
    left_out: dict[str, str] = {}
    if run.statistics.is_file():
        content[STATISTICS], left = _statistics(run, summary)
        left_out |= {STATISTICS: left} if left else {}
    small = [run.diagnostics] if run.diagnostics.is_file() else []
    for path in [*small, *sorted(run.evaluated.glob("*.parquet"))]:
        name = path.relative_to(run.path).as_posix()
        if (size := path.stat().st_size) <= LARGE:
            content[name] = path.read_bytes()
        else:
            left_out[name] = f"{size / 1e6:.1f} MB"
    name = f"{spec.place}/{run.name}"
    at = finished(summary, run.metrics)
    return create(workspace.archived(name), name, declared, at, content, left_out)


def _statistics(run: RunDirectory, summary: Summary) -> tuple[bytes, str]:
    """The statistics to archive; and, if rounds are left out, the included ones, as text."""
    data = run.statistics.read_bytes()
    if len(data) <= LARGE:
        return data, ""
    table = read_parquet(run.statistics)
    rounds = sorted({*summary["best_round"].values(), rounds_trained(summary)})
    part = table.filter(pc.is_in(table["round"], value_set=pa.array(rounds, pa.int32())))
    sink = io.BytesIO()
    pq.write_table(part.combine_chunks(), sink, compression="zstd")
    return sink.getvalue(), f"{len(data) / 1e6:.1f} MB; of rounds {', '.join(map(str, rounds))} alone"


def outdated(file: Archived, other: Archived) -> bool:
    """Whether `other` is a newer file of the same run that replaces `file`.

    It does if it is from the same class of machine, or from a changed method. Files of other machines are
    both stored.
    """
    changed = file.summary.get("method_code") != other.summary.get("method_code")
    same_run = file.digest == other.digest and (changed or file.machine == other.machine)
    return same_run and file.index.finished < other.index.finished


def superseded(files: Iterable[Archived]) -> list[Archived]:
    """The files that another one of `files` replaces, for example after a merge of branches."""
    every = list(files)
    return [file for file in every if any(outdated(file, other) for other in every)]


def stand_in(workspace: Workspace, run: RunDirectory) -> RunDirectory | None:
    """The unpacked archived run for an unfinished run in results/runs; None if there is none.

    Raises FedshiftError for a file that does not pass `check`.
    """
    files = (*paths(workspace, workspace.name_of(run)),)
    if files and not (files in _standing and _standing[files].summary_file.is_file()):
        newest = of_run(workspace, workspace.name_of(run))[0]
        check(workspace, newest, whole=False)
        _standing[files] = unpacked(workspace, newest)
    return _standing.get(files)


_standing: dict[tuple[Path, ...], RunDirectory] = {}  # by files, whose names have hashes of their content


def unpacked(workspace: Workspace, archived: Archived) -> RunDirectory:
    """An archived run as a finished run's directory in results/archived, without weights.

    Files there that a crash of the machine has truncated are written again.
    """
    folder = workspace.unpacked(archived.hash)
    with built_once(folder) as part:
        if part is not None:
            for member, data in archived.content.items():
                path = part / archived.run / member
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
    run = RunDirectory(folder / archived.run)
    for member, data in archived.content.items():
        path = run.path / member
        if not path.is_file() or path.stat().st_size < len(data):
            write_bytes(path, data)
    return run


def listed(archived: Iterable[Archived]) -> list[tuple[str, ...]]:
    """COLUMNS of each run in order, then the sum.

    `rounds`: of training.
    `finished`: the day, in UTC.
    `commit`: of the code that trained it; `+` if files differed from it, `-` if it was not a clone.
    `hours`: of training (without evaluation in earlier versions): core-hours, or hours of the accelerator.
    """
    lines, total, size = [], 0.0, 0.0
    for one in archived:
        summary, hours, kilobytes = one.summary, _hours(one), len(one.data) / 1e3
        spec, commit = summary["spec"], summary["environment"].get("commit") or "-"
        day = datetime.fromtimestamp(one.index.finished, UTC).date().isoformat()
        trained = one.index.run.rpartition("/")[0], str(rounds_trained(summary))
        declared = str(spec["data"]["input_px"]), spec["local"]["precision"], one.digest
        made = commit[:7] + "+" * (" " in commit), day, str(one.machine)
        lines.append((*trained, *declared, *made, f"{hours:.2f}", f"{kilobytes:.0f}"))
        total, size = total + hours, size + kilobytes
    return [*lines, (f"{len(lines)} runs", *[""] * (len(COLUMNS) - 3), f"{total:.1f}", f"{size:.0f}")]


def _hours(one: Archived) -> float:
    """The hours from the summary; from the records of rounds if that has only those of the last process."""
    if "finished" in one.summary:
        seconds = one.summary["costs"]["seconds"]
    else:  # of an earlier version
        records = read_parquet(one.content[METRICS], filters=pc.field("metric") == "seconds")
        seconds = pc.sum(records["value"]).as_py() or 0
    return seconds / 3600 * (one.machine.threads if one.machine.device == "cpu" else 1)
