"""The plan as a file: its content, its path, and how it is read.

The Snakefile needs it, so it imports the standard library and PyYAML only.

A plan is a JSON file results/plan/<key>.json; the key covers everything that determines the set of runs and
their costs. The state of runs is in their directories (`fedshift.storage.rundir`), so a plan stays valid
while its runs are trained.

A job uses the plan that it was started with, even if files were edited while it waited; it stops if a
declared version has changed. Starting the workflow requests the plan of the current declarations.
"""

import contextlib
import functools
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from fedshift.common.errors import FedshiftError
from fedshift.common.files import canonical_json, sha256, sha256_file, write_text
from fedshift.common.registry import plugin_sources
from fedshift.common.yaml_file import read
from fedshift.planning.request import Request
from fedshift.storage.workspace import TUNING, Workspace

COSTS = "benchmarks/costs.csv"
FACTORS = "benchmarks/methods.csv"


class Run(NamedTuple):
    """One run of a plan. Paths are relative to the project's root."""

    digest: str  # its id
    code: str  # fingerprint of the files of its method and model (`RunSpec.method_code`)
    directory: str  # where it is trained
    dataset: str
    method: str
    target: str  # "none" where no domain is held out
    seed: int
    spec: str  # the resolved RunSpec as JSON
    pack: str  # the job that trains it
    rounds: int
    images: int  # that it trains on and evaluates, once for each time
    minutes: float  # of its training, estimated as are memory and disk
    mem_mb: int
    disk_mb: int  # the most that it takes
    prepared: str  # the images that it reads
    partition: str
    kept_mb: int = 0  # of disk_mb, what stays when it is finished

    @property
    def stamp(self) -> str:
        """`<data set>/<method>/<pack>`: the stamp of its pack (`Workspace.pack`)."""
        return f"{self.dataset}/{self.method}/{self.pack}"


class Cell(NamedTuple):
    """One use of a run."""

    experiment: str
    label: str  # the row of its tables
    axes: str  # the values on its axes, as JSON
    digest: str  # the run's
    adaptation: str = ""  # the adaptation, as JSON; "" for the run itself


class Evaluated(NamedTuple):
    """An evaluation of all runs of an experiment."""

    experiment: str
    label: str  # the name of its files
    task: str  # the evaluation, as JSON


class Images(NamedTuple):
    """Decoded images that runs need: their folder and their source."""

    prepared: str
    dataset: str
    release: str
    px: int


class Plan(NamedTuple):
    """The content of a plan's file."""

    request: dict[str, Any]  # what it was made for, the keys of params.yaml
    runs: list[Run]  # each once, in pack order
    cells: list[Cell]  # every use of every run, in the order of the experiments' files
    images: list[Images]
    evaluations: list[Evaluated] = []
    compared: dict[str, list[str]] = {}  # experiment -> the others that its claims compare with


RECORDS: dict[str, type] = {"runs": Run, "cells": Cell, "images": Images, "evaluations": Evaluated}


def location(workspace: Workspace, request: Request) -> Path:
    """The path of the plan of a request, whether or not it has been made."""
    # Manifests contain numbers of images, on which costs depend, but not the set of runs.
    manifests = canonical_json(_hashes(workspace.root, workspace.manifests()))
    parts = (inputs_key(workspace, request), manifests, sources_key(), plugins_key())
    return workspace.plan(sha256("".join(parts))[:16])


def last(workspace: Workspace, request: Request) -> Path | None:
    """The plan of a request, if it has been made. Its date is updated, because old plans are removed."""
    path = location(workspace, request)
    if not path.is_file():
        return None
    with contextlib.suppress(OSError):  # another user's
        os.utime(path)
    return path


def used(plan: Path) -> int:
    """When a plan was made, or last requested (nanoseconds); 0 if another process has removed it."""
    try:
        return plan.stat().st_mtime_ns
    except FileNotFoundError:
        return 0


def write(path: Path, plan: Plan) -> None:
    """Write a plan atomically, one record per line."""
    ordered = plan._replace(
        runs=sorted(plan.runs, key=lambda run: (run.pack, run.seed)),
        images=sorted(plan.images, key=lambda images: images.prepared),
    )
    parts = []
    for name, value in ordered._asdict().items():
        lines = [json.dumps(record._asdict()) for record in value] if isinstance(value, list) else []
        text = "[\n" + ",\n".join(lines) + "\n]" if isinstance(value, list) else json.dumps(value)
        parts.append(f"{json.dumps(name)}: {text}")
    write_text(path, "{\n" + ",\n".join(parts) + "\n}\n")


def load(path: Path) -> Plan:
    """Read a plan. Raises FedshiftError if there is none, and for an incomplete file."""
    try:
        stat = path.stat()
    except FileNotFoundError:
        raise FedshiftError(path, "there is no such plan", "Make one with `fedshift plan`.") from None
    return _load(path.absolute(), stat.st_mtime_ns, stat.st_size)


@functools.lru_cache(maxsize=4)
def _load(path: Path, time: int, size: int) -> Plan:
    try:
        content = json.loads(path.read_bytes())
        for name, kind in RECORDS.items():
            content[name] = [kind(**record) for record in content[name]]
        return Plan(**content)
    except (ValueError, KeyError, TypeError, OSError) as error:
        cure = "Delete it and make it again with `fedshift plan`."
        raise FedshiftError(path, f"cannot be read: {error}", cure) from None


def request(workspace: Workspace, path: Path) -> Request:
    """The request of a plan."""
    return Request.of(load(path).request, workspace.root, str(path))


def runs(path: Path, pack: str | None = None, experiment: str | None = None) -> list[Run]:
    """The runs of a plan in pack order: all, those of one pack, or those that an experiment uses."""
    found = [run for run in load(path).runs if pack in (None, run.pack)]
    if experiment is None:
        return found
    used_by = {cell.digest for cell in cells(path, experiment)}
    return [run for run in found if run.digest in used_by]


def cells(path: Path, experiment: str | None = None) -> list[Cell]:
    """Every use of every run, of all experiments or of one, in the order of the experiments' files."""
    return [cell for cell in load(path).cells if experiment in (None, cell.experiment)]


def inputs_key(workspace: Workspace, request: Request) -> str:
    """Hash of the user's declarations: request, experiments, protocols, presets, files of groups, claims and
    costs.
    """
    names = [name.removesuffix(TUNING) for name in request.experiments]
    experiments = [workspace.experiments / f"{name}.yaml" for name in names]
    costs = [workspace.root / COSTS, workspace.root / FACTORS]
    claims = workspace.reference / "claims.csv"  # which experiments are compared with which
    files = [*experiments, *sorted(workspace.reference.rglob("*.yaml"))]
    words = set[str]()
    for path in filter(Path.is_file, files):
        with contextlib.suppress(FedshiftError):  # not YAML, which planning reports if it needs the file
            words.update(_words(read(path)))
    groups = (workspace.root / word for word in sorted(words) if len(word.encode()) < 256)  # others are prose
    files += [claims, *costs, *groups]
    return sha256(canonical_json([asdict(request), _hashes(workspace.root, files)]))


def _words(value: Any) -> Iterator[str]:
    """Every text among the values of a YAML file, such as the name of a file of groups."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _words(part)


def _hashes(root: Path, files: Iterable[Path]) -> dict[str, str]:
    return {os.path.relpath(path, root): sha256_file(path) for path in files if path.is_file()}


def sources_key(subpackage: str = "") -> str:
    """Hash of the modules, templates and tables of the package, or of one of its subpackages."""
    package = Path(__file__).parents[1] / subpackage
    files = sorted(path for kind in ("*.py", "*.j2", "*.csv") for path in package.rglob(kind))
    return sha256(canonical_json(_hashes(package, files)))


def plugins_key() -> str:
    """Hash of the bytes of every module of installed plug-ins."""
    return sha256(canonical_json([[path.name, sha256_file(path)] for path in plugin_sources()]))
