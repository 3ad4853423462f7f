"""Collect the runs of an experiment in three Parquet files: records, statistics, and one row per run."""

import contextlib
import functools
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fedshift.analysis.collected import ARCHIVE, COLUMNS, COSTS, OWN, RUNS, Collected, beside, read
from fedshift.archive.file import finished as finished_at
from fedshift.archive.machine import hardware
from fedshift.archive.store import stand_in
from fedshift.common.errors import FedshiftError
from fedshift.common.files import atomic_path, canonical_json
from fedshift.common.parquet import read_parquet
from fedshift.common.registry import names
from fedshift.experiments.expand import planned as declared
from fedshift.experiments.load import load
from fedshift.experiments.schema import Experiment
from fedshift.experiments.task import place, read_result
from fedshift.federation.records import ADAPTED, SCHEMA, STATISTICS
from fedshift.planning import planfile
from fedshift.spec import Method
from fedshift.storage.rundir import RunDirectory, State, Summary, rounds_trained
from fedshift.storage.workspace import TUNING, Workspace

ROWS_A_GROUP = 1 << 15  # or one run more: a reader of the file has one group in memory


class Use(NamedTuple):
    """One run of the experiment: the label of its row, its value on each axis, its directory and spec.

    `directory`: as in the plan and in tables, relative to the workspace's root.
    `spec`: resolved, in JSON.
    `installed`: fingerprint of the files of its method and model, now or when it was planned.
    `adaptation`: the task of an adapted row, as in planfile.Cell.
    `source`: OWN, or ARCHIVE for a run that is read from the archive.
    """

    label: str
    axes: dict[str, Any]
    run: RunDirectory
    directory: str
    spec: str
    installed: str
    adaptation: str = ""
    source: str = OWN


def planned(workspace: Workspace, experiment: Experiment, plan: Path | None) -> list[Use]:
    """The runs and adaptations of an experiment.

    Without a plan, and for experiments that train nothing, these are the ones that its file declares now.
    """
    found = []
    if plan is None or not experiment.train:
        for cell in declared(workspace, experiment, built=False):
            run, spec = workspace.run(cell.spec.run_name), cell.spec
            directory = run.path.relative_to(workspace.root).as_posix()
            task = canonical_json(cell.task.declared()) if cell.task else ""
            found.append(
                Use(cell.label, cell.axes, run, directory, spec.model_dump_json(), spec.method_code, task)
            )
        return found
    runs = {run.digest: run for run in planfile.runs(plan, experiment=experiment.name)}
    if not (uses := planfile.cells(plan, experiment.name)):
        cure = f"Run `fedshift plan {experiment.name}` and name that plan."
        raise FedshiftError(plan, f"this plan has no experiment '{experiment.name}'", cure)
    for use in uses:
        of, axes = runs[use.digest], json.loads(use.axes)
        run = workspace.run_at(of.directory)
        found.append(Use(use.label, axes, run, of.directory, of.spec, of.code, use.adaptation))
    return found


def keys_of(experiment: Experiment, uses: Sequence[Use]) -> pa.Table:
    """Method label and axes, in the order of the file, one row per run.

    Raises FedshiftError for an axis with the name of a column.
    """
    for axis in COLUMNS & {*experiment.axes}:
        where, key = f"{experiment.file}: axes.{axis}", experiment.axes[axis].key
        cure = (
            f"Give it another name: `axes: {{<name>: {{key: {key}, values: [..]}}}}`. Runs stay as they are."
        )
        raise FedshiftError(where, "is a column of collected files and tables already", cure)
    axes = dict.fromkeys([*experiment.axes, *(axis for use in uses for axis in use.axes)])
    columns = {axis: pa.array([use.axes.get(axis) for use in uses]) for axis in axes}
    return pa.table({"method": pa.array([use.label for use in uses], pa.string()), **columns})


class NothingFinished(FedshiftError):
    """An experiment has no results yet.

    `failed`: whether some of its runs failed.
    `hints`: more lines on what to do.
    """

    def __init__(self, name: str, *, failed: bool, hints: Sequence[str] = ()) -> None:
        self.failed = failed
        cure = f"Why runs failed: fedshift status {name}" if failed else f"To train them: fedshift run {name}"
        cure = "\n  ".join([cure, *hints])
        where = f"experiments/{name.removesuffix(TUNING)}.yaml"
        super().__init__(where, "no run of it is finished here or archived", cure)


def collect(
    workspace: Workspace, name: str, plan: Path | None = None, *, empty: bool = False,
    known: Collected | None = None,
) -> Collected:  # fmt: skip
    """Write the records, statistics and runs of an experiment to results/metrics/.

    - <experiment>.parquet: one row per run, round, client and recorded value
    - <experiment>.statistics.parquet: one row per run, round and evaluated set
    - <experiment>.runs.parquet: one row per run

    If a run is not finished here, the archived run is used. A run that is in neither place has a row in the
    last file alone. So has an adaptation that has not been made.

    `plan`: determines the runs of the experiment; by default its file does.
    `empty`: write the files even if no run is finished.
    `known`: what was collected before. It is returned, and nothing is written, if it has a planned run that
        is not finished now, as after `dvc pull` of collected results alone.

    Raises NothingFinished, without writing anything, if no run is finished or archived.
    """
    experiment, path = load(workspace, name), workspace.metrics(name)
    uses = planned(workspace, experiment, plan)
    for number, use in enumerate(uses):
        if use.run.outcome() is not State.FINISHED and (archived := stand_in(workspace, use.run)):
            directory = archived.path.relative_to(workspace.root).as_posix()
            uses[number] = use._replace(run=archived, directory=directory, source=ARCHIVE)
    keys = keys_of(experiment, uses)
    rows = [*map(_row, uses)]
    if known is not None:
        runs = known.runs[known.runs["state"] == "finished"]
        had = {*zip(runs["digest"], runs["adaptation"].fillna(""), strict=True)}
        lost = (row for row in rows if row["state"] != "finished")
        if any((row["digest"], row["adaptation"] or "") in had for row in lost):
            return known
    finished = [number for number, row in enumerate(rows) if row["state"] == "finished"]
    if experiment.train and not finished and not empty:
        raise NothingFinished(name, failed=any(row["state"] == "failed" for row in rows))
    frame = pa.Table.from_pylist(rows, RUNS)
    runs = keys.append_column("digest", frame["digest"]).take(pa.array(finished, pa.int64()))
    trained = [uses[number] for number in finished]
    write(path, SCHEMA, runs, _records, trained)
    write(beside(path, "statistics"), STATISTICS, runs, _statistics, trained)
    with atomic_path(beside(path, "runs")) as temporary:
        columns = [*keys.column_names, *frame.column_names]
        pq.write_table(pa.table([*keys.columns, *frame.columns], names=columns), temporary)
    return read(workspace, name)


def _row(use: Use) -> dict[str, Any]:
    """The row of a run, or of its adaptation."""
    run = use.run
    row: dict[str, Any] = {
        "digest": run.digest,
        "installed": use.installed,
        "run": use.directory,
        "source": use.source,
        "spec": use.spec,
        "adaptation": use.adaptation or None,
        "precision": (spec := json.loads(use.spec))["local"]["precision"],
        "state": run.outcome(),
    }
    if row["state"] is State.FAILED:
        row["failure"] = (run.failure() or {}).get("text", "")
    if row["state"] in (State.MISSING, State.FAILED):
        return row
    summary = run.summary() or {}
    costs = {name: summary["costs"].get(name) for name in COSTS}
    measured = summary["environment"]
    if use.adaptation:
        if not (result := _adapted(use, summary)).is_file():
            return {**row, "state": State.MISSING}
        _, stamp = read_result(result)
        costs["seconds"] += stamp["seconds"]
        measured = stamp["environment"]
    with _damage_named(run.metrics):
        finished = finished_at(summary, run.metrics)
    return {
        **row,
        **{name: summary[name] for name in ("evaluates", "stage", "classes", "clients")},
        **costs,
        "absent": canonical_json(summary.get("absent", {})),
        "state": State.FINISHED,
        "code": summary.get("method_code", ""),
        "bn": summary["policy"]["bn"],
        "pooled": _pools(canonical_json(spec["method"])),
        "hardware": hardware(measured),
        "images": summary["hashes"].get("prepared"),
        "rounds": rounds_trained(summary),
        "finished": finished,
    }


@functools.cache
def _pools(method: str) -> bool | None:
    """Whether a method (JSON) trains one client on all images; None if its package is not installed."""
    declared = json.loads(method)
    known = declared["name"] in names("methods")
    return bool(Method(**declared).build().clients == "pooled") if known else None


def _adapted(use: Use, summary: Summary) -> Path:
    """The file of a finished run's adaptation, computed from the run's present weights."""
    declaration = json.loads(use.adaptation)
    weights = summary["hashes"].get(f"weights_{declaration['task']['selection']}")
    return place(use.run, {**declaration, "run": use.run.digest, "weights": weights})


def _records(use: Use) -> pa.Table:
    """The records of a finished run, or those of its adaptation, tested afterwards."""
    if not use.adaptation:
        return _read(use, use.run.metrics).select(SCHEMA.names).cast(SCHEMA)
    table, _ = read_result(_adapted(use, use.run.summary() or {}))
    return table.filter(pc.equal(table["stage"], ADAPTED))


def _statistics(use: Use) -> pa.Table:
    """The statistics of a finished run; none for an adaptation, or for a run that recorded none."""
    file = use.run.statistics
    if use.adaptation or not file.is_file():
        return STATISTICS.empty_table()
    table = _read(use, file)
    if table.column_names != STATISTICS.names:  # of an earlier version: missing columns are null
        return read_parquet(file, schema=STATISTICS)
    return table.cast(STATISTICS)


def _read(use: Use, path: Path) -> pa.Table:
    """A file of a finished run; of an archived run, which experiments share, once per process."""
    with _damage_named(path):
        return _archived(path) if use.source == ARCHIVE else read_parquet(path)


# The folder of an unpacked run is named by the hash of its content.
_archived = functools.lru_cache(2048)(read_parquet)


@contextlib.contextmanager
def _damage_named(path: Path) -> Iterator[None]:
    """In the block, which reads the file at `path`, report damage together with what to do."""
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        cure = f"Remove {path.parent} and start Snakemake again: the run is trained again."
        raise FedshiftError(path, f"is not whole: {error}", cure) from None


def write(
    path: Path,
    schema: pa.Schema,
    runs: pa.Table,
    read: Callable[[Any], pa.Table],
    sources: Sequence[Any],
    metadata: dict[str, str] | None = None,
) -> None:
    """Write rows of `schema` of all runs, each after the columns of its run's row of `runs`.

    Each row group has all rows of some runs.

    `runs`: one row per run.
    `read`: returns the rows of a run, given its element of `sources`.
    """
    whole = pa.schema([*runs.schema, *schema], metadata)
    waiting: list[pa.Table] = []
    with atomic_path(path) as temporary, pq.ParquetWriter(temporary, whole, compression="zstd") as writer:
        for after, source in enumerate(sources, 1):
            waiting.append(read(source))
            if sum(map(len, waiting)) >= ROWS_A_GROUP or after == len(sources):
                owners = np.repeat(np.arange(after - len(waiting), after), [*map(len, waiting)])
                columns = [*runs.take(pa.array(owners)).columns, *pa.concat_tables(waiting).columns]
                table = pa.table(columns, schema=whole).combine_chunks()
                writer.write_table(table, row_group_size=max(len(table), 1))
                waiting.clear()
