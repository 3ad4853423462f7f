"""A run trained here beside the same run in the archive: the same bits, or how far apart."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from fedshift.archive.file import METRICS, Archived
from fedshift.archive.machine import MachineClass
from fedshift.common.parquet import read_parquet
from fedshift.federation.records import MEASURED
from fedshift.storage.rundir import RunDirectory, Summary

# Points between instruction sets that docs/runs.md measured of one seed (59.7, 60.5 and 55.9), rounded up.
NOISE = 5.0


@dataclass(frozen=True)
class Comparison:
    """equal: whether records and weights are the same, bit for bit
    same_code: whether both name one commit, and no uncommitted changes
    same_class: whether the class of machine is the same; what was resumed elsewhere is of no class
    points: largest difference of the accuracies after the last round, each a mean over its clients
    """

    equal: bool
    same_code: bool
    same_class: bool
    points: float

    @property
    def passed(self) -> bool:
        """The same bits where code and machine promise them, else within NOISE."""
        return self.equal or (not (self.same_code and self.same_class) and self.points <= NOISE)

    def __str__(self) -> str:
        where = f"{'same' if self.same_class else 'other'} machine class"
        where += "" if self.same_code else ", other code"
        if self.equal:
            return f"equal bit for bit ({where})"
        if math.isnan(self.points):
            return f"tested other models or sets ({where})"
        noise = "within" if self.points <= NOISE else "beyond"
        return f"differs by {self.points:.1f} points after the last round, {noise} {NOISE:.0f} ({where})"


def compare(run: RunDirectory, archived: Archived) -> Comparison:
    """A finished run with an archived one of its digest."""
    summary, other = run.summary() or {}, archived.summary
    machine = MachineClass.of(summary["environment"])
    ours, theirs = read_parquet(run.metrics), read_parquet(archived.content[METRICS])
    return Comparison(
        equal=_of_weights(summary["hashes"]) == _of_weights(other["hashes"])
        and _exact(ours).equals(_exact(theirs)),
        same_code=_commit(summary) == _commit(other) != "",
        same_class=machine == archived.machine and not machine.earlier,
        points=_points(ours, theirs),
    )


def _commit(summary: Summary) -> str:
    """The commit whose code trained a run, "" where it names none or had changes."""
    commit = str(summary["environment"].get("commit") or "")
    return "" if " " in commit else commit


def _of_weights(hashes: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in hashes.items() if name.startswith("weights_")}


def _exact(records: pa.Table) -> pa.Table:
    """The records that the same bits repeat: neither times nor what the machine took."""
    measured = pc.is_in(records["stage"], value_set=pa.array(MEASURED))
    return records.filter(pc.invert(measured)).drop_columns(["time"]).combine_chunks()


def _points(ours: pa.Table, theirs: pa.Table) -> float:
    """The largest distance of mean accuracies of the last round, by stage, model and split, in percent; NaN
    where a run lacks what the other tested.
    """
    by = ["stage", "model", "split"]
    means = []
    for records in (ours, theirs):
        last = pc.equal(records["round"], pc.max(records["round"]))
        rows = records.filter(pc.and_(last, pc.equal(records["metric"], "accuracy")))
        grouped = rows.group_by(by).aggregate([("value", "mean")]).to_pylist()
        means.append({tuple(row[key] for key in by): row["value_mean"] for row in grouped})
    if means[0].keys() != means[1].keys():
        return float("nan")
    return 100 * max(abs(value - means[1][place]) for place, value in means[0].items())
