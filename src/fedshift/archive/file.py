"""The file of an archived run: its directory without weights, in one ZIP.

The ZIP is uncompressed, as its Parquet files are compressed, and has no times, so that the same run gives the
same bytes everywhere. Its first member lists the others, with their hashes. Its name ends with the hash of
the whole file. A file is never changed, so two contributors never change the same one.

`read` checks names and hashes; `check` the location, the tables' schema, declared versions and specification.
The specification and versions must give the run id in the file's name.
"""

import io
import json
import re
import struct
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import Field

from fedshift.archive.machine import MachineClass
from fedshift.common.errors import FedshiftError
from fedshift.common.files import canonical_json, sha256
from fedshift.common.parquet import read_parquet
from fedshift.experiments.task import place
from fedshift.federation import records
from fedshift.spec import Closed, closed, parse
from fedshift.storage.rundir import RunDirectory, Summary
from fedshift.storage.workspace import Workspace

FORMAT = 1
INDEX = "archive.json"
NAME = re.compile(r"([0-9a-f]{16}(?:-[0-9a-f]{8})?)-([0-9a-f]{12})\.zip")  # of earlier versions with code
OTHER = "Take the file from git again: git checkout -- {}. If it was merged so, archive the run again."
RUN = RunDirectory(Path())
PLAIN = [path.name for path in (RUN.summary_file, RUN.metrics, RUN.statistics, RUN.diagnostics)]
SUMMARY, METRICS, STATISTICS, DIAGNOSTICS = PLAIN
# Errors of zipfile for damaged bytes; RuntimeError if a flag marks a member as encrypted.
DAMAGED = (zipfile.BadZipFile, RuntimeError, ValueError, EOFError, OSError, struct.error)
EVALUATED = re.compile(rf"{RUN.evaluated.name}/[^/]+-[0-9a-f]{{16}}\.parquet")
SCHEMAS = {METRICS: records.SCHEMA, STATISTICS: records.STATISTICS, DIAGNOSTICS: records.DIAGNOSTICS}
SUMMARY_KEYS = {
    "digest", "spec", "dataset", "method", "target", "seed", "clients", "classes", "evaluates",
    "stage", "hashes", "weights", "best_round", "costs", "policy", "environment",
}  # fmt: skip
ANEW = "Remove the file (git keeps it), train the run and archive it again."


class Index(Closed):
    """The first member of an archive file.

    `run`: the name of the run (RunSpec.run_name), which determines the location of the file.
    `versions`: declared when it was archived; with the specification they give the run id.
    `finished`: when the run was finished, in seconds since 1970.
    `files`: SHA-256 of every other member.
    `left_out`: files of the run that are left out, as a whole or in part, with the reason.
    """

    format: int
    run: str = Field(pattern=r"^([^/]+/){4}[0-9a-f]{16}(-[0-9a-f]{8})?$")
    versions: dict[str, int | str]
    finished: float
    files: dict[str, str]
    left_out: dict[str, str]


@dataclass(frozen=True)
class Archived:
    """A complete archive file.

    `path`: its present or future location.
    `content`: its members by name, without the index.
    """

    path: Path
    index: Index
    content: dict[str, bytes]

    @property
    def run(self) -> str:
        """The name of the run's directory: its run id, or `<digest>-<code>` in earlier versions."""
        return self.path.stem.rpartition("-")[0]

    @property
    def digest(self) -> str:
        return self.run.partition("-")[0]

    @property
    def hash(self) -> str:
        """The first 12 hexadecimal digits of the file's SHA-256."""
        return self.path.stem.rpartition("-")[2]

    @property
    def summary(self) -> Summary:
        value: Summary = json.loads(self.content[SUMMARY])
        return value

    @property
    def machine(self) -> MachineClass:
        """The class of the machine that trained the run."""
        return MachineClass.of(self.summary["environment"])

    @property
    def data(self) -> bytes:
        """The bytes of the file."""
        return _zipped(self.index, self.content)


def finished(summary: Summary, metrics: Path | bytes) -> float:
    """When a run was finished, in seconds since 1970; in earlier versions, the time of its last record."""
    if "finished" in summary:
        return float(summary["finished"])
    return float(pc.max(read_parquet(metrics, columns=["time"])["time"]).as_py())


def create(
    folder: Path, run: str, versions: dict[str, int | str], finished: float, content: dict[str, bytes],
    left_out: dict[str, str],
) -> Archived:  # fmt: skip
    """An archive file for the folder `folder`, not yet written."""
    files = {name: sha256(data) for name, data in sorted(content.items())}
    index = Index(
        format=FORMAT, run=run, versions=versions, finished=finished, files=files, left_out=left_out
    )
    name = f"{Path(run).name}-{sha256(_zipped(index, content))[:12]}.zip"
    return Archived(folder / name, index, content)


def _zipped(index: Index, content: dict[str, bytes]) -> bytes:
    """The bytes of the ZIP, the same on every machine for the same content."""
    sink = io.BytesIO()
    first = (canonical_json(index.model_dump(mode="json")) + "\n").encode()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_STORED) as file:
        for name, data in [(INDEX, first), *sorted(content.items())]:
            member = zipfile.ZipInfo(name)  # dated 1980, so that the bytes do not depend on the time
            member.create_system, member.external_attr = 3, 0o644 << 16
            file.writestr(member, data)
    return sink.getvalue()


def read(path: Path) -> Archived:
    """The archive file at `path`.

    Raises FedshiftError, with the member, for a file that was damaged or changed, and for an unknown format.
    """
    if not (name := NAME.fullmatch(path.name)):
        raise _refused(path, "has no name of an archived run: <digest>-<hash>.zip")
    data = path.read_bytes()
    members = _members(path, data)
    index = _index(path, members.pop(INDEX, b""))
    for member in sorted({*members} | {*index.files}):
        where = f"{path}: {member}"
        if member not in members:
            raise _refused(path, "is not there, and the index names it", where)
        if member not in PLAIN and not EVALUATED.fullmatch(member):
            raise _refused(path, "is not a file of an archived run", where)
        if sha256(members[member]) != index.files.get(member):
            raise _refused(path, "has other bytes than when it was archived", where)
    if SUMMARY not in members or METRICS not in members:
        raise _refused(path, f"has no {SUMMARY} or no {METRICS}")
    if Path(index.run).name != name[1] or sha256(data)[:12] != name[2]:
        raise _refused(
            path, "does not match its name, which has the run and the hash of the content", f"{path}: {INDEX}"
        )
    return Archived(path, index, members)


def _members(path: Path, data: bytes) -> dict[str, bytes]:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as file:
            names = file.namelist()
            if len({*names}) < len(names):
                raise _refused(path, "has two members of one name")
            return {name: _member(path, file, name) for name in names}
    except DAMAGED as error:
        raise _refused(path, f"is not a whole ZIP file: {error}") from None


def _member(path: Path, file: zipfile.ZipFile, name: str) -> bytes:
    # A stored member cannot grow when it is read.
    if file.getinfo(name).compress_type != zipfile.ZIP_STORED:
        raise _refused(path, "is compressed", f"{path}: {name}")
    try:
        return file.read(name)
    except DAMAGED:
        raise _refused(path, "has other bytes than when it was archived", f"{path}: {name}") from None


def _index(path: Path, data: bytes) -> Index:
    where = f"{path}: {INDEX}"
    try:
        value: Any = json.loads(data)
    except ValueError as error:
        raise _refused(path, f"is not whole: {error}", where) from None
    version = value.get("format") if isinstance(value, dict) else None
    if version != FORMAT:
        what = f"is of format {version!r}, and this code reads {FORMAT}"
        raise FedshiftError(where, what, "Update fedshift: git pull.")
    return closed(Index, value, where)


def _refused(path: Path, what: str, where: str = "") -> FedshiftError:
    return FedshiftError(where or path, what, OTHER.format(path))


def check(workspace: Workspace, archived: Archived, whole: bool = True) -> None:
    """Raise FedshiftError, with the location, for a file that tables must not use.

    `whole`: read every value of its tables, otherwise the columns only.
    """
    try:
        lacking = SUMMARY_KEYS - {*(summary := archived.summary)}
    except (ValueError, TypeError) as error:
        raise _invalid(archived, SUMMARY, f"is not a summary of a run: {error}") from None
    if lacking:
        raise _invalid(archived, SUMMARY, f"'{min(lacking)}' is missing")
    parquet = (name for name in archived.content if name.endswith(".parquet"))
    schemas = {name: _schema(archived, name, whole) for name in parquet}
    index = archived.index
    spec = parse(summary["spec"], f"{archived.path}: {SUMMARY}: spec")
    if summary["digest"] != archived.digest:
        what = f"run id is {summary['digest']}, not {archived.digest} as in the file's name"
        raise _invalid(archived, SUMMARY, what)
    if spec.id_under(index.versions) != archived.digest:
        raise _invalid(archived, SUMMARY, "its specification and versions do not make the digest in its name")
    name = f"{spec.place}/{archived.run}"
    if index.run != name or archived.path.parent != workspace.archived(name):
        raise _invalid(archived, INDEX, f"belongs into {workspace.archived(name)}")
    versions = spec.versions
    for name in sorted({*versions, *index.versions}):
        if versions.get(name) != (declared := index.versions.get(name)):
            what = f"version of {name} is {declared}, and the code declares {versions.get(name)}"
            raise _invalid(archived, f"{INDEX}: versions", what)
    if index.finished != (last := finished(summary, archived.content[METRICS])):  # chooses the newest
        raise _invalid(archived, INDEX, f"finished is {index.finished}, and the run was at {last}")
    for name, schema in schemas.items():
        if name not in SCHEMAS:
            _evaluated(archived, name, schema)


def _schema(archived: Archived, name: str, whole: bool) -> pa.Schema:
    """The columns of the Parquet file of that name, if they are those that a run records."""
    data = archived.content[name]
    try:
        schema = read_parquet(data).schema if whole else pq.read_schema(pa.BufferReader(data))
    except (pa.ArrowException, OSError) as error:
        raise _invalid(archived, name, f"is no Parquet file: {error}") from None
    wanted = SCHEMAS.get(name)
    if wanted is not None and not schema.equals(wanted):
        types = {field.name: field.type for field in schema}
        for field in wanted:
            if types.get(field.name) != field.type:
                what = f"column '{field.name}' is {types.get(field.name, 'not there')}, not {field.type}"
                raise _invalid(archived, name, what)
        raise _invalid(archived, name, f"has columns that no run records: {', '.join(types)}")
    return schema


def _evaluated(archived: Archived, name: str, schema: pa.Schema) -> None:
    """Check that a result of an evaluation is of this run's weights, under the name given by its stamp."""
    run = RunDirectory(Path(archived.run))
    try:
        stamp = json.loads(schema.metadata[b"made"])
        member = place(run, stamp).relative_to(run.path).as_posix()
    except (KeyError, TypeError, ValueError) as error:
        raise _invalid(archived, name, f"has no stamp of an evaluation: {error!r}") from None
    hashes = archived.summary["hashes"].values()
    if member != name or stamp["run"] != archived.digest or stamp["weights"] not in hashes:
        raise _invalid(archived, name, "is of another run, of other weights, or misnamed")


def _invalid(archived: Archived, member: str, what: str) -> FedshiftError:
    return FedshiftError(f"{archived.path}: {member}", what, ANEW)
