"""Check an archive file: its location, its tables' schema, declared versions, and specification.

The specification and versions must give the run id in the file's name. Hashes: fedshift.archive.file.
"""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from fedshift.archive.file import DIAGNOSTICS, INDEX, METRICS, STATISTICS, SUMMARY, Archived, finished
from fedshift.common.errors import FedshiftError
from fedshift.common.parquet import read_parquet
from fedshift.experiments.task import place
from fedshift.federation.records import DIAGNOSTICS as OF_DIAGNOSTICS
from fedshift.federation.records import SCHEMA
from fedshift.federation.records import STATISTICS as OF_STATISTICS
from fedshift.spec import parse
from fedshift.storage.rundir import RunDirectory
from fedshift.storage.workspace import Workspace

SCHEMAS = {METRICS: SCHEMA, STATISTICS: OF_STATISTICS, DIAGNOSTICS: OF_DIAGNOSTICS}
SUMMARY_KEYS = {
    "digest", "spec", "dataset", "method", "target", "seed", "clients", "classes", "evaluates",
    "stage", "hashes", "weights", "best_round", "costs", "policy", "environment",
}  # fmt: skip
CURE = "Remove the file (git keeps it), train the run and archive it again."


def check(workspace: Workspace, archived: Archived, whole: bool = True) -> None:
    """Raise FedshiftError, with the location, for a file that tables must not use.

    `whole`: read every value of its tables, otherwise the columns only.
    """
    try:
        lacking = SUMMARY_KEYS - {*(summary := archived.summary)}
    except (ValueError, TypeError) as error:
        raise _refused(archived, SUMMARY, f"is not a summary of a run: {error}") from None
    if lacking:
        raise _refused(archived, SUMMARY, f"'{min(lacking)}' is missing")
    parquet = (name for name in archived.content if name.endswith(".parquet"))
    schemas = {name: _schema(archived, name, whole) for name in parquet}
    index = archived.index
    spec = parse(summary["spec"], f"{archived.path}: {SUMMARY}: spec")
    if summary["digest"] != archived.digest:
        what = f"run id is {summary['digest']}, not {archived.digest} as in the file's name"
        raise _refused(archived, SUMMARY, what)
    if spec.id_under(index.versions) != archived.digest:
        raise _refused(archived, SUMMARY, "its specification and versions do not make the digest in its name")
    name = f"{spec.place}/{archived.run}"
    if index.run != name or archived.path.parent != workspace.archived(name):
        raise _refused(archived, INDEX, f"belongs into {workspace.archived(name)}")
    versions = spec.versions
    for name in sorted({*versions, *index.versions}):
        if versions.get(name) != (declared := index.versions.get(name)):
            what = f"version of {name} is {declared}, and the code declares {versions.get(name)}"
            raise _refused(archived, f"{INDEX}: versions", what)
    if index.finished != (last := finished(summary, archived.content[METRICS])):  # chooses the newest
        raise _refused(archived, INDEX, f"finished is {index.finished}, and the run was at {last}")
    for name, schema in schemas.items():
        if name not in SCHEMAS:
            _evaluated(archived, name, schema)


def _refused(archived: Archived, member: str, what: str) -> FedshiftError:
    return FedshiftError(f"{archived.path}: {member}", what, CURE)


def _schema(archived: Archived, name: str, whole: bool) -> pa.Schema:
    """The columns of the Parquet file of that name.

    Raises FedshiftError if it is damaged, or has other columns than a run records.
    """
    data = archived.content[name]
    try:
        schema = read_parquet(data).schema if whole else pq.read_schema(pa.BufferReader(data))
    except (pa.ArrowException, OSError) as error:
        raise _refused(archived, name, f"is no Parquet file: {error}") from None
    wanted = SCHEMAS.get(name)
    if wanted is not None and not schema.equals(wanted):
        types = {field.name: field.type for field in schema}
        for field in wanted:
            if types.get(field.name) != field.type:
                what = f"column '{field.name}' is {types.get(field.name, 'not there')}, not {field.type}"
                raise _refused(archived, name, what)
        raise _refused(archived, name, f"has columns that no run records: {', '.join(types)}")
    return schema


def _evaluated(archived: Archived, name: str, schema: pa.Schema) -> None:
    """Check that a result of an evaluation is of this run's weights, under the name given by its stamp."""
    run = RunDirectory(Path(archived.run))
    try:
        stamp = json.loads(schema.metadata[b"made"])
        member = place(run, stamp).relative_to(run.path).as_posix()
    except (KeyError, TypeError, ValueError) as error:
        raise _refused(archived, name, f"has no stamp of an evaluation: {error!r}") from None
    hashes = archived.summary["hashes"].values()
    if member != name or stamp["run"] != archived.digest or stamp["weights"] not in hashes:
        raise _refused(archived, name, "is of another run, of other weights, or misnamed")
