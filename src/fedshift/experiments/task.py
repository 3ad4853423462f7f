"""The runs of an experiment, and evaluation tasks: what to compute from the weights and images of a finished
run, as known without the run.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from fedshift.common.errors import FedshiftError
from fedshift.common.files import atomic_path, canonical_json, sha256
from fedshift.common.parquet import read_parquet
from fedshift.common.registry import get, module
from fedshift.identity import fingerprint
from fedshift.spec import RunSpec
from fedshift.spec.block import params
from fedshift.storage.rundir import RunDirectory, Summary

Images = Literal["tested", "full_domain"]
KEPT = ("last", "best_first", "best_later")  # the rounds whose weights a run saves
NAMED_BY = ("run", "weights", "version", "code", "task")


@dataclass(frozen=True)
class Task:
    """An evaluation with its parameters."""

    evaluation: str
    params: dict[str, Any]
    selection: str = "best_first"  # which of the saved weights it uses
    images: Images = "tested"  # of the held-out domain: those that the run's own numbers are of, or all

    def declared(self, where: str = "fedshift evaluate") -> dict[str, Any]:
        """Version of the evaluation, fingerprint of its file, and this task with all its parameters.

        Raises FedshiftError for an unknown evaluation.
        """
        kind = get("evaluations", self.evaluation, where)
        hp = params(kind, self.params, f"{where}: {self.evaluation}")
        return {
            "version": kind.version,
            "code": fingerprint(module("evaluations", self.evaluation)),
            "task": {**asdict(self), "params": asdict(hp)},
        }

    def check(self, spec: RunSpec, where: str) -> None:
        """Raise FedshiftError if a run cannot be evaluated by this task, before it is trained."""
        self.declared(where)
        kind = get("evaluations", self.evaluation)
        if kind.adapts:
            one_domain(spec, where)
        if spec.evaluation.keep == "none":
            raise FedshiftError(where, "its runs keep no weights", "Set evaluation.keep: post_agg.")
        kind.check(spec.network(2), where)

    def stamp(self, run: RunDirectory, summary: Summary) -> dict[str, Any]:
        """The identity of the result for a finished run: its name, its weights, and `declared`."""
        weights_hash = summary["hashes"].get(f"weights_{self.selection}")
        return {**self.declared(), "run": run.digest, "weights": weights_hash}


@dataclass(frozen=True)
class Cell:
    """One run of an experiment."""

    label: str  # its row
    axes: dict[str, Any]  # as tables show them; two held-out domains as `target` (reported) and `validation`
    spec: RunSpec  # resolved
    task: Task | None = None  # how it is adapted, if it is


def place(run: RunDirectory, stamp: dict[str, Any]) -> Path:
    """Path of a result, <run>/evaluated/<evaluation>-<key>.parquet.

    The key covers the run's weights, the task, and version and file of the evaluation.
    """
    key = sha256(canonical_json({name: stamp[name] for name in NAMED_BY}))[:16]
    return run.evaluated / f"{stamp['task']['evaluation']}-{key}.parquet"


def write_result(path: Path, table: pa.Table, origin: dict[str, Any]) -> None:
    """Write a result atomically, with its origin (what it was computed from)."""
    with atomic_path(path) as temporary:
        stamped = table.replace_schema_metadata({"made": json.dumps(origin)})
        pq.write_table(stamped, temporary, compression="zstd")


def read_result(path: Path) -> tuple[pa.Table, dict[str, Any]]:
    """A table that `write_result` wrote, and its origin."""
    table = read_parquet(path)
    return table.replace_schema_metadata(), json.loads(table.schema.metadata[b"made"])


def one_domain(spec: RunSpec, where: object) -> None:
    """Raise FedshiftError if a run holds out no domain, or two."""
    if not isinstance(spec.data.target, str):
        what = "holds out two domains" if spec.data.target else "holds out no domain to adapt to"
        raise FedshiftError(where, what, "Choose a run with one target.")
