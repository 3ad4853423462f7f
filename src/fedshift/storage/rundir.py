"""The directory of a run: which files there are, and what they say of how far it is.

Standard library only: the Snakefile needs it. docs/runs.md describes the files.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from fedshift.common.files import is_whole, read_whole, write_json
from fedshift.common.lock import Holder, holder
from fedshift.storage.failure import Failure

PARQUET_END = b"PAR1"
Summary = dict[str, Any]


def rounds_trained(summary: Summary) -> int:
    """The rounds that a finished run trained: fewer than declared where it stopped early. Summaries of before
    runs could do so lack the number.
    """
    return int(summary.get("rounds", summary["spec"]["federation"]["rounds"]))


class State(StrEnum):
    """How far a run is. INTERRUPTED: it goes on from its checkpoint; as an outcome it is MISSING."""

    FINISHED = "finished"
    RUNNING = "running"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    MISSING = "missing"


@dataclass(frozen=True)
class RunDirectory:
    """The directory of one run, whether or not it exists.

    path: results/runs/<data set>/<method>/<target>/seed<seed>/<digest>
    """

    path: Path

    @property
    def name(self) -> str:
        """The run's digest; of a run of earlier versions `<digest>-<code>`."""
        return self.path.name

    @property
    def digest(self) -> str:
        """The run's id (`identity.digest`)."""
        return self.name.partition("-")[0]

    @property
    def lock(self) -> Path:
        """Who trains the run (`fedshift.common.lock`)."""
        return self.path / "lock.json"

    @property
    def spec(self) -> Path:
        """The resolved RunSpec with all parameters, as JSON."""
        return self.path / "spec.json"

    @property
    def environment(self) -> Path:
        """Versions and hardware that the run began on, as JSON."""
        return self.path / "environment.json"

    @property
    def checkpoint(self) -> Path:
        """Where an interrupted run goes on from."""
        return self.path / "checkpoint.safetensors"

    @property
    def segments(self) -> Path:
        """The folder of records between two checkpoints, `<first round>-<last round>.parquet` each."""
        return self.path / "segments"

    @property
    def statistics(self) -> Path:
        """What a finished run counted by class and confidence."""
        return self.path / "statistics.parquet"

    @property
    def statistics_segments(self) -> Path:
        """The same of a run under way, as it is written."""
        return self.segments / "statistics"

    @property
    def diagnostics(self) -> Path:
        """What the method of a finished run recorded; only of a method that declares diagnostics."""
        return self.path / "diagnostics.parquet"

    @property
    def diagnostics_segments(self) -> Path:
        """The same of a run under way, as it is written."""
        return self.segments / "diagnostics"

    @property
    def metrics(self) -> Path:
        """All records of a finished run that the same run would repeat, as Parquet."""
        return self.path / "metrics.parquet"

    @property
    def timings(self) -> Path:
        """What each round of a finished run took on its machine, and when it ended, as Parquet."""
        return self.path / "timings.parquet"

    @property
    def weights(self) -> Path:
        """The folder of the weights of a finished run (`fedshift.training.weights`)."""
        return self.path / "weights"

    @property
    def evaluated(self) -> Path:
        """The folder of what was computed of the finished run (`fedshift.training.evaluate`), a file each."""
        return self.path / "evaluated"

    @property
    def summary_file(self) -> Path:
        """Result and costs of a finished run, as JSON; the last file to be written."""
        return self.path / "summary.json"

    @property
    def failure_file(self) -> Path:
        """Why a run stopped, as JSON: kind, text, trace, and whether trying again can help (retry)."""
        return self.path / "failure.json"

    def summary(self) -> Summary | None:
        """The summary of a finished run, else None."""
        return read_whole(self.summary_file) if self.outcome() is State.FINISHED else None

    def failure(self) -> Failure | None:
        """The reason of the last failure, else None; a finished run has none."""
        return read_whole(self.failure_file)

    def finish(self, summary: Summary) -> None:
        """Write the summary, which makes the run finished, and forget its failures."""
        write_json(self.summary_file, summary)
        self.forget_failure()

    def tidy(self) -> None:
        """Remove what a process that was killed after its summary has left of a finished run: the checkpoint,
        and a failure that is over. Where a process still writes, that one does.
        """
        if not self.writer():
            self.forget_failure()
            self.checkpoint.unlink(missing_ok=True)

    def fail(self, failure: Failure) -> None:
        """Write the reason of a failure."""
        write_json(self.failure_file, failure)

    def forget_failure(self) -> None:
        self.failure_file.unlink(missing_ok=True)

    def retry(self) -> None:
        """Let a run that failed for good be trained again; its reason is kept until then."""
        if self.failed_for_good:
            self.fail({**(self.failure() or {}), "retry": True})

    def writer(self) -> Holder | None:
        """The process that trains the run now; None where none does."""
        return holder(self.lock)

    def locked_since(self) -> float | None:
        """When the lock was taken, in seconds since the epoch, even if its holder was killed; None where
        there is none.
        """
        try:
            return self.lock.stat().st_mtime
        except OSError:
            return None

    def state(self) -> State:
        """How far the run is."""
        outcome = self.outcome()
        if outcome is not State.FINISHED and self.writer():
            return State.RUNNING
        return State.INTERRUPTED if outcome is State.MISSING and self.checkpoint.exists() else outcome

    def outcome(self) -> State:
        """FINISHED, FAILED or MISSING, whether or not the run is being trained again.

        A finished run has a summary and records. A torn file counts as never written.
        """
        if is_whole(self.summary_file) and is_whole(self.metrics, PARQUET_END):
            return State.FINISHED
        return State.FAILED if is_whole(self.failure_file) else State.MISSING

    @property
    def failed_for_good(self) -> bool:
        """Whether the run failed in a way that trying again does not change."""
        failure = self.failure() if self.outcome() is State.FAILED else None
        return failure is not None and not failure["retry"]
