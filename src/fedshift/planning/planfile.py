"""The plan as a file: what it answers, where it lies, how it is read. Standard library only: the Snakefile
needs it.

A plan is an SQLite file results/plan/<key>.db; its key (`fedshift.planning.hashes`) covers everything that
decides which runs there are and what they cost. Which runs are finished their directories say
(`fedshift.storage.rundir`): a plan stays valid while its runs are trained.

A job goes on with the plan that it was started with, whatever was edited while it waited: the plan says what
to train, and a job refuses where a declared version has changed. Whoever starts the workflow asks for the
plan of what is declared now.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from fedshift.common.errors import FedshiftError
from fedshift.common.files import sha256
from fedshift.planning.hashes import choices_key, inputs_key, manifests_key, plugins_key, sources_key
from fedshift.planning.request import Request
from fedshift.storage.workspace import Workspace

SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT);
CREATE TABLE runs (
  digest TEXT PRIMARY KEY, code TEXT, directory TEXT, dataset TEXT, method TEXT, target TEXT, seed INTEGER,
  spec TEXT, pack TEXT, rounds INTEGER, images INTEGER, minutes REAL, mem_mb INTEGER, disk_mb INTEGER,
  prepared TEXT, partition TEXT, kept_mb INTEGER
);
CREATE TABLE cells (experiment TEXT, label TEXT, axes TEXT, digest TEXT, adaptation TEXT);
CREATE TABLE evaluations (experiment TEXT, label TEXT, task TEXT);
CREATE TABLE compared (experiment TEXT, other TEXT);
CREATE TABLE choices (experiment TEXT PRIMARY KEY, key TEXT, made INTEGER);
CREATE TABLE waiting (
  experiment TEXT,
  digest TEXT, code TEXT, directory TEXT, dataset TEXT, method TEXT, target TEXT, seed INTEGER, spec TEXT,
  pack TEXT, rounds INTEGER, images INTEGER, minutes REAL, mem_mb INTEGER, disk_mb INTEGER,
  prepared TEXT, partition TEXT, kept_mb INTEGER
);
CREATE TABLE images (prepared TEXT PRIMARY KEY, dataset TEXT, release TEXT, px INTEGER);
CREATE INDEX runs_pack ON runs (pack);
CREATE INDEX cells_digest ON cells (digest);
"""


class Run(NamedTuple):
    """One run of a plan. Paths are relative to the project's root.

    digest: its id; code: fingerprint of the files of its method and model (`identity.method_code`)
    directory: where it is trained
    dataset, method, target, seed: what it is, for a reader; target is "none" where no domain is held out
    spec: the resolved RunSpec as JSON
    pack: the job that trains it
    rounds: of training; images: that it trains on and evaluates, once for each time
    minutes, mem_mb, disk_mb: estimates of its training; disk_mb is the most that it takes
    prepared, partition: the images and the partition that it reads
    kept_mb: of disk_mb, what stays when it is finished
    """

    digest: str
    code: str
    directory: str
    dataset: str
    method: str
    target: str
    seed: int
    spec: str
    pack: str
    rounds: int
    images: int
    minutes: float
    mem_mb: int
    disk_mb: int
    prepared: str
    partition: str
    kept_mb: int = 0

    @property
    def stamp(self) -> str:
        """`<data set>/<method>/<pack>`: the stamp of its pack (`Workspace.pack`)."""
        return f"{self.dataset}/{self.method}/{self.pack}"


class Cell(NamedTuple):
    """One use of a run.

    experiment: its name
    label: the row of its tables
    axes: the values on its axes, as JSON
    digest: the run's
    adaptation: what is adapted how, as JSON; "" for the run itself
    """

    experiment: str
    label: str
    axes: str
    digest: str
    adaptation: str = ""


class Evaluated(NamedTuple):
    """What is computed of all runs of an experiment.

    experiment: its name
    label: the name of its files
    task: what is computed how, as JSON
    """

    experiment: str
    label: str
    task: str


class Choosing(NamedTuple):
    """What the tuning of an experiment chooses.

    experiment: its name; that of its tuning is <experiment>.tuning
    key: the name of the choice's file (fedshift.experiments.choice)
    made: whether it was chosen when this was planned; if not, the final runs wait, and are no runs of the
        plan
    """

    experiment: str
    key: str
    made: bool


class Images(NamedTuple):
    """Decoded images that runs need: their folder, where they come from."""

    prepared: str
    dataset: str
    release: str
    px: int


def location(workspace: Workspace, request: Request) -> Path:
    """Where the plan of a request lies, whether or not it has been made."""
    declared = (inputs_key(workspace, request), choices_key(workspace, request))
    parts = (*declared, manifests_key(workspace), sources_key(), plugins_key())
    key = sha256("".join(parts))[:16]
    return workspace.plan(key)


def last(workspace: Workspace, request: Request) -> Path | None:
    """The plan of a request, if it has been made, dated now: old ones are removed."""
    path = location(workspace, request)
    if not path.is_file():
        return None
    with contextlib.suppress(OSError):  # another user's
        os.utime(path)
    return path


def used(plan: Path) -> int:
    """When a plan was made, or last asked for (nanoseconds); 0 where another process has removed it."""
    try:
        return plan.stat().st_mtime_ns
    except FileNotFoundError:
        return 0


def write(
    path: Path, meta: dict[str, str], runs: list[Run], cells: list[Cell], images: list[Images],
    evaluations: Iterable[Evaluated] = (), choices: Iterable[Choosing] = (),
    waiting: Iterable[tuple[str, Run]] = (), compared: Iterable[tuple[str, str]] = (),
) -> None:  # fmt: skip
    """Fill a new database at `path`, which must not exist."""
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        database.executescript(SCHEMA)
        database.executemany("INSERT INTO meta VALUES (?, ?)", meta.items())
        database.executemany(f"INSERT INTO runs VALUES ({', '.join('?' * len(Run._fields))})", runs)
        database.executemany("INSERT INTO cells VALUES (?, ?, ?, ?, ?)", cells)
        database.executemany("INSERT INTO images VALUES (?, ?, ?, ?)", images)
        database.executemany("INSERT INTO evaluations VALUES (?, ?, ?)", evaluations)
        database.executemany("INSERT INTO choices VALUES (?, ?, ?)", choices)
        database.executemany("INSERT INTO compared VALUES (?, ?)", compared)
        rows = [(experiment, *run) for experiment, run in waiting]
        marks = ", ".join("?" * (1 + len(Run._fields)))
        database.executemany(f"INSERT INTO waiting VALUES ({marks})", rows)


@contextlib.contextmanager
def _open(path: Path) -> Iterator[sqlite3.Connection]:
    """The plan's database, read-only. Raises FedshiftError where there is none."""
    if not path.is_file():
        raise FedshiftError(path, "there is no such plan", "Make one with `fedshift plan`.")
    with contextlib.closing(
        sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)
    ) as database:
        try:
            yield database
        except sqlite3.DatabaseError as error:
            raise FedshiftError(
                path, f"cannot be read: {error}", "Delete it and make it anew with `fedshift plan`."
            ) from None


def request(workspace: Workspace, path: Path) -> Request:
    """The request that a plan answers."""
    with _open(path) as database:
        (text,) = database.execute("SELECT value FROM meta WHERE key = 'request'").fetchone()
    return Request.of(json.loads(text), workspace.root, str(path))


def runs(
    path: Path, pack: str | None = None, experiments: tuple[str, ...] = (), digest: str | None = None
) -> list[Run]:
    """The plan's runs in pack order: all, those of one pack, those that some experiment uses, or one."""
    query = "SELECT * FROM runs"
    values: list[str] = []
    if pack is not None:
        query, values = f"{query} WHERE pack = ?", [pack]
    elif digest is not None:
        query, values = f"{query} WHERE digest = ?", [digest]
    elif experiments:
        marks = ", ".join("?" * len(experiments))
        query += f" WHERE digest IN (SELECT digest FROM cells WHERE experiment IN ({marks}))"
        values = [*experiments]
    with _open(path) as database:
        return [Run(*row) for row in database.execute(f"{query} ORDER BY pack, seed", values)]


def cells(path: Path, experiment: str | None = None) -> list[Cell]:
    """Every use of every run, of all experiments or of one, in the order of the experiments' files."""
    query, values = ("", []) if experiment is None else (" WHERE experiment = ?", [experiment])
    with _open(path) as database:
        return [Cell(*row) for row in database.execute(f"SELECT * FROM cells{query} ORDER BY rowid", values)]


def evaluations(path: Path) -> list[Evaluated]:
    """What is computed of the runs, in the order of the experiments' files."""
    with _open(path) as database:
        return [Evaluated(*row) for row in database.execute("SELECT * FROM evaluations ORDER BY rowid")]


def choices(path: Path) -> list[Choosing]:
    """What the plan's experiments choose by tuning, in the order of their names."""
    with _open(path) as database:
        rows = database.execute("SELECT * FROM choices ORDER BY experiment")
        return [Choosing(experiment, key, bool(made)) for experiment, key, made in rows]


def compared(path: Path) -> dict[str, list[str]]:
    """Experiment -> the other experiments of the plan that its claims compare with, where there are some."""
    found: dict[str, list[str]] = {}
    with _open(path) as database:
        for experiment, other in database.execute("SELECT * FROM compared ORDER BY experiment, other"):
            found.setdefault(experiment, []).append(other)
    return found


def waiting(path: Path) -> dict[str, list[Run]]:
    """The final runs that wait for a choice, by experiment, as if they were not tuned: how many there are and
    what they cost. Their specifications are not what is trained.
    """
    found: dict[str, list[Run]] = {}
    with _open(path) as database:
        for experiment, *row in database.execute("SELECT * FROM waiting ORDER BY experiment, pack, seed"):
            found.setdefault(experiment, []).append(Run(*row))
    return found


def images(path: Path) -> list[Images]:
    """The decoded images that the plan's runs need."""
    with _open(path) as database:
        return [Images(*row) for row in database.execute("SELECT * FROM images ORDER BY prepared")]
