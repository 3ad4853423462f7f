"""The plan as a file: what it answers, where it lies, how it is read. Standard library only: the Snakefile needs it.

A plan is an SQLite file results/plan/<key>.db. Its key covers everything that decides which runs there are and what they
cost: the request, the experiment files that it names, protocols and presets, measured costs, manifests, and the sources of
the package and of plug-ins. Which runs are finished is not in it, so that a plan stays valid while its runs are trained. Under
`rerun: version` they decide which runs there are: that plan is made anew whenever work begins, as results/plan/<key>-<runs>.db.

A job goes on with the plan that it was started with, whatever was edited while it waited: the plan says what to train, a run's name
says by which code, and a job whose code has changed refuses. Whoever starts the workflow asks for the plan of what is declared now.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from fedshift.errors import FedshiftError
from fedshift.files import canonical_json, sha256, sha256_file, write_json
from fedshift.planning.request import Request
from fedshift.registry import plugin_sources

COSTS = "benchmarks/costs.csv"
FACTORS = "benchmarks/methods.csv"
SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT);
CREATE TABLE runs (
  digest TEXT, code TEXT, directory TEXT, dataset TEXT, method TEXT, target TEXT, seed INTEGER, spec TEXT,
  pack TEXT, state TEXT, rounds INTEGER, images INTEGER, minutes REAL, mem_mb INTEGER, disk_mb INTEGER,
  prepared TEXT, partition TEXT, kept_mb INTEGER, installed TEXT,
  PRIMARY KEY (digest, code)
);
CREATE TABLE cells (experiment TEXT, label TEXT, axes TEXT, digest TEXT, adaptation TEXT);
CREATE TABLE images (prepared TEXT PRIMARY KEY, dataset TEXT, release TEXT, px INTEGER);
CREATE INDEX runs_pack ON runs (pack);
CREATE INDEX cells_digest ON cells (digest);
"""


class Run(NamedTuple):
    """One row of a plan. Paths are relative to the project's root; `spec` is the resolved RunSpec as JSON.

    disk_mb: while it trains; kept_mb: of that, what stays when it is finished; installed: the code when this was planned, which is not
    `code` where a run of other code is taken (rerun: version).
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
    state: str
    rounds: int
    images: int
    minutes: float
    mem_mb: int
    disk_mb: int
    prepared: str
    partition: str
    kept_mb: int = 0
    installed: str = ""

    @property
    def name(self) -> str:
        """`<digest>-<code>`: the name of the run's directory."""
        return f"{self.digest}-{self.code}"

    @property
    def of_other_code(self) -> bool:
        return self.installed not in ("", self.code)


class Cell(NamedTuple):
    """One use of a run: the experiment, the label of its row, the axes' values (JSON), the digest, and what is adapted how (JSON, or "")."""

    experiment: str
    label: str
    axes: str
    digest: str
    adaptation: str = ""


class Images(NamedTuple):
    """Decoded images that runs need: their folder, where they come from."""

    prepared: str
    dataset: str
    release: str
    px: int


def inputs_key(root: Path, request: Request) -> str:
    """Hash of what a user declares: the request, the named experiments, protocols, presets and costs."""
    named = [root / "experiments" / f"{name}.yaml" for name in request.experiments]
    files = [*named, *sorted((root / "reference").rglob("*.yaml")), root / COSTS, root / FACTORS]
    content = {path.relative_to(root).as_posix(): sha256_file(path) for path in files if path.is_file()}
    return sha256(canonical_json([asdict(request), content]))


def manifests_key(root: Path) -> str:
    """Hash of all manifests, which tell how many images there are. They decide what runs cost and not which there are, so a job
    goes on with its plan while another data set is fetched."""
    files = [
        *(root / "reference" / "datasets").glob("*.json"),
        *(root / "data" / "raw").glob("*/*.manifest.json"),
    ]
    content = {path.relative_to(root).as_posix(): sha256_file(path) for path in sorted(files)}
    return sha256(canonical_json(content))


def sources_key(room: str = "") -> str:
    """Hash of the bytes of every module and template of the package, or of one of its rooms ("analysis")."""
    package = Path(__file__).parents[1] / room
    files = sorted([*package.rglob("*.py"), *package.rglob("*.j2")])
    return sha256(canonical_json([[str(path.relative_to(package)), sha256_file(path)] for path in files]))


def plugins_key() -> str:
    """Hash of the bytes of every module of what is installed as a plug-in."""
    return sha256(canonical_json([[path.name, sha256_file(path)] for path in plugin_sources()]))


def location(root: Path, request: Request, names: Iterable[str] = ()) -> Path:
    """Where the plan of a request lies, whether or not it has been made; under `rerun: version`, that of runs with these names."""
    parts = (inputs_key(root, request), manifests_key(root), sources_key(), plugins_key())
    key = sha256("".join(parts))[:16]
    if request.rerun == "version":
        key += "-" + sha256("\n".join(sorted(names)))[:8]
    return root / "results" / "plan" / f"{key}.db"


def last(root: Path, request: Request) -> Path | None:
    """The plan of a request that was made last, if one was."""
    path = location(root, request)
    if request.rerun == "code":
        return path if path.is_file() else None
    made = path.parent.glob(f"{path.stem.partition('-')[0]}-*.db")
    return max(made, key=lambda one: one.stat().st_mtime_ns, default=None)


def taken(directory: Path, rerun: str) -> Path:
    """A run's directory; by `rerun: version`, where nothing in it is finished, that of the run of the same digest that was finished last."""
    if rerun == "code" or (directory / "summary.json").is_file():
        return directory
    digest = directory.name.partition("-")[0]
    others = directory.parent.glob(f"{digest}-*/summary.json")
    return max(
        others, key=lambda path: (path.stat().st_mtime, path), default=directory / "summary.json"
    ).parent


def write(path: Path, meta: dict[str, str], runs: list[Run], cells: list[Cell], images: list[Images]) -> None:
    """Fill a new database at `path`, which must not exist."""
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        database.executescript(SCHEMA)
        database.executemany("INSERT INTO meta VALUES (?, ?)", meta.items())
        database.executemany(f"INSERT INTO runs VALUES ({', '.join('?' * len(Run._fields))})", runs)
        database.executemany("INSERT INTO cells VALUES (?, ?, ?, ?, ?)", cells)
        database.executemany("INSERT INTO images VALUES (?, ?, ?, ?)", images)


@contextlib.contextmanager
def _open(path: Path) -> Iterator[sqlite3.Connection]:
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


def request(root: Path, path: Path) -> Request:
    """The request that a plan answers."""
    with _open(path) as database:
        (told,) = database.execute("SELECT value FROM meta WHERE key = 'request'").fetchone()
    return Request.of(json.loads(told), root, str(path))


def runs(path: Path, pack: str | None = None, experiments: tuple[str, ...] = ()) -> list[Run]:
    """The plan's runs in pack order: all, those of one pack, or those that some experiment uses."""
    query = "SELECT * FROM runs"
    given: list[str] = []
    if pack is not None:
        query, given = f"{query} WHERE pack = ?", [pack]
    elif experiments:
        marks = ", ".join("?" * len(experiments))
        query, given = (
            f"{query} WHERE digest IN (SELECT digest FROM cells WHERE experiment IN ({marks}))",
            [*experiments],
        )
    with _open(path) as database:
        return [Run(*row) for row in database.execute(f"{query} ORDER BY pack, seed", given)]


def cells(path: Path) -> list[Cell]:
    """Every use of every run, in the order of the experiments' files."""
    with _open(path) as database:
        return [Cell(*row) for row in database.execute("SELECT * FROM cells ORDER BY rowid")]


def images(path: Path) -> list[Images]:
    """The decoded images that the plan's runs need."""
    with _open(path) as database:
        return [Images(*row) for row in database.execute("SELECT * FROM images ORDER BY prepared")]


def outcome(root: Path, run: Run) -> tuple[str, dict[str, Any]]:
    """A run's state as its directory tells it: ("finished", summary), ("failed", failure) or ("planned", {})."""
    for state, file in (("finished", "summary.json"), ("failed", "failure.json")):
        path = root / run.directory / file
        if path.is_file():
            return state, json.loads(path.read_text())
    return "planned", {}


def hopeless(root: Path, run: Run) -> bool:
    """Whether a run failed in a way that trying again does not change."""
    state, told = outcome(root, run)
    return state == "failed" and not told["retry"]


def retry_failed(root: Path, members: list[Run]) -> int:
    """Delete the stamps of packs with members that failed for good, so that they are asked for again; return how many.

    Their failures are forgotten too: a pack leaves out members that failed for good.
    """
    for run in members:
        if hopeless(root, run):
            (root / run.directory / "failure.json").unlink()
    paths = {root / "results" / "packs" / f"{run.pack}.json" for run in members}
    stale = [path for path in paths if path.is_file() and json.loads(path.read_text())["failed"]]
    for path in stale:
        path.unlink()
    return len(stale)


def stamp(root: Path, pack: str, members: list[Run]) -> bool:
    """Write results/packs/<pack>.json once nothing is left to do for its members, and say whether that is so.

    A member that failed for good counts as done; it stands under "failed" with its reason.
    """
    outcomes = {run.name: outcome(root, run) for run in members}
    if any(
        state == "planned" or (state == "failed" and told.get("retry")) for state, told in outcomes.values()
    ):
        return False
    sides = {
        side: {name: told for name, (state, told) in outcomes.items() if state == side}
        for side in ("finished", "failed")
    }
    path, told = root / "results" / "packs" / f"{pack}.json", {"pack": pack, **sides}
    if not path.is_file() or json.loads(path.read_text()) != told:
        write_json(path, told)
    return True
