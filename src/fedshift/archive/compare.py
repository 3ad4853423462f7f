"""Compare a run trained here with the same run in the archive, bit by bit or by distance."""

import math
from typing import NamedTuple

import pandas as pd

from fedshift.archive.file import METRICS, Archived
from fedshift.archive.machine import MachineClass
from fedshift.common.parquet import read_parquet
from fedshift.federation.records import MEASURED
from fedshift.storage.rundir import RunDirectory

# Points between instruction sets with one seed (docs/reproducibility.md: 59.7, 60.5 and 55.9), rounded up.
NOISE = 5.0


class Comparison(NamedTuple):
    """The result of comparing two runs.

    `equal`: whether records and weights are the same, bit for bit.
    `same_code`: whether both have the same commit, without uncommitted changes.
    `same_class`: whether the class of machine is the same; False for a run that was resumed elsewhere.
    `points`: largest difference of the accuracies after the last round, each a mean over its clients.
    """

    equal: bool
    same_code: bool
    same_class: bool
    points: float

    @property
    def passed(self) -> bool:
        """Whether the bits are the same, if code and machine guarantee them, or `points` is within NOISE."""
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
    """Compare a finished run with an archived one of the same run id."""
    ours, theirs = run.summary() or {}, archived.summary
    machine = MachineClass.of(ours["environment"])
    records, others = (
        read_parquet(source).to_pandas() for source in (run.metrics, archived.content[METRICS])
    )
    weights, other_weights = (
        {name: value for name, value in summary["hashes"].items() if name.startswith("weights_")}
        for summary in (ours, theirs)
    )
    commit, other_commit = (str(summary["environment"].get("commit") or "") for summary in (ours, theirs))
    return Comparison(
        equal=weights == other_weights and _exact(records).equals(_exact(others)),
        same_code=commit == other_commit != "" and " " not in commit,  # a blank: with changes
        same_class=machine == archived.machine and not machine.earlier,
        points=_points(records, others),
    )


def _exact(records: pd.DataFrame) -> pd.DataFrame:
    """The records that are reproducible bit for bit: without times and measurements of the machine."""
    return records[~records["stage"].isin(MEASURED)].drop(columns="time").reset_index(drop=True)


def _points(ours: pd.DataFrame, theirs: pd.DataFrame) -> float:
    """The largest distance of mean accuracies of the last round, in percent; NaN if others were tested."""
    means = [
        records[(records["round"] == records["round"].max()) & (records["metric"] == "accuracy")]
        .groupby(["stage", "model", "split"])["value"]
        .mean()
        for records in (ours, theirs)
    ]
    return float((100 * (means[0] - means[1]).abs()).max(skipna=False))
