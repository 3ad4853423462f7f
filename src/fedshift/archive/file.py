"""The file of an archived run: its directory without weights, in one ZIP.

The ZIP is uncompressed, as its Parquet files are compressed, and has no times, so that the same run gives the
same bytes everywhere. Its first member lists the others. Its name ends with the hash of the whole file. A
file is never changed, so two contributors never change the same one.
"""

import io
import json
import re
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
from pydantic import Field

from fedshift.archive.machine import MachineClass
from fedshift.common.errors import FedshiftError
from fedshift.common.files import canonical_json, sha256
from fedshift.common.parquet import read_parquet
from fedshift.spec.block import Closed, closed
from fedshift.storage.rundir import RunDirectory, Summary

FORMAT = 1
INDEX = "archive.json"
NAME = re.compile(r"([0-9a-f]{16}(?:-[0-9a-f]{8})?)-([0-9a-f]{12})\.zip")  # of earlier versions with code
OTHER = "Take the file from git again: git checkout -- {}. If it was merged so, archive the run again."
RUN = RunDirectory(Path())
PLAIN = [path.name for path in (RUN.summary_file, RUN.metrics, RUN.statistics, RUN.diagnostics)]
SUMMARY, METRICS, STATISTICS, DIAGNOSTICS = PLAIN
EVALUATED = re.compile(rf"{RUN.evaluated.name}/[^/]+-[0-9a-f]{{16}}\.parquet")


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
        """The beginning of the file's SHA-256."""
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

    Raises FedshiftError for a file that was damaged or changed, and for an unknown format.
    """
    if not (name := NAME.fullmatch(path.name)):
        raise _refused(path, "has no name of an archived run: <digest>-<hash>.zip")
    data = path.read_bytes()
    if sha256(data)[:12] != name[2]:
        raise _refused(path, "has other bytes than when it was archived")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as file:
            members = {member: file.read(member) for member in file.namelist()}
        value: Any = json.loads(members.pop(INDEX))
    except (zipfile.BadZipFile, KeyError, ValueError) as error:
        raise _refused(path, f"is no archived run: {error}") from None
    version = value.get("format") if isinstance(value, dict) else None
    if version != FORMAT:
        what = f"is of format {version!r}, and this code reads {FORMAT}"
        raise FedshiftError(f"{path}: {INDEX}", what, "Update fedshift: git pull.")
    index = closed(Index, value, f"{path}: {INDEX}")
    for member in members:
        if member not in PLAIN and not EVALUATED.fullmatch(member):
            raise _refused(path, f"contains {member}, which is no file of an archived run")
    if not {SUMMARY, METRICS} <= {*members} or Path(index.run).name != name[1]:
        raise _refused(path, "is not the run that its name tells")
    return Archived(path, index, members)


def _refused(path: Path, what: str) -> FedshiftError:
    return FedshiftError(path, what, OTHER.format(path))
