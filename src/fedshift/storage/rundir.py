"""The directory of a run: its files, the run's state, and the reason of a failure.

Standard library only: the Snakefile needs it. docs/run-directory.md describes the files.
"""

from __future__ import annotations

import re
import traceback
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from fedshift.common.errors import FedshiftError
from fedshift.common.files import CURES, Holder, holder, is_whole, read_whole, write_json

PARQUET_END = b"PAR1"
Summary = dict[str, Any]


def rounds_trained(summary: Summary) -> int:
    """Rounds that a finished run trained: those of its spec in old summaries, fewer if it stopped early."""
    return int(summary.get("rounds", summary["spec"]["federation"]["rounds"]))


def trained(summary: Summary) -> str:
    """What a run trained: "fedavg on pacs, held out: photo, seed 0"."""
    data, held_out = summary["spec"]["data"], summary["target"] or "none"
    name = data["dataset"] + (f":{data['release']}" if data["release"] != "original" else "")
    return f"{summary['method']} on {name}, held out: {held_out}, seed {summary['seed']}"


class State(StrEnum):
    """The state of a run. INTERRUPTED: it resumes from its checkpoint; as an outcome it is MISSING."""

    FINISHED = "finished"
    RUNNING = "running"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    MISSING = "missing"


class At:
    """A file or folder of a run's directory or a workspace, as an attribute."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, owner: Any, kind: type) -> Path:
        folder: Path = owner.root if hasattr(owner, "root") else owner.path
        return folder / self.name


@dataclass(frozen=True)
class RunDirectory:
    """The directory of one run, whether or not it exists.

    path: results/runs/<data set>/<method>/<target>/seed<seed>/<digest>
    """

    path: Path

    lock = At("lock.json")  # the process that trains the run (`fedshift.common.files`)
    spec = At("spec.json")  # the resolved RunSpec with all parameters
    environment = At("environment.json")  # versions and hardware that the run began on
    checkpoint = At("checkpoint.safetensors")  # from which an interrupted run resumes
    # Records between two checkpoints, `<first round>-<last round>.parquet` each:
    segments = At("segments")
    statistics_segments = At("segments/statistics")
    diagnostics_segments = At("segments/diagnostics")
    # Records of a finished run: those that the same run would repeat, counts by class and confidence,
    # diagnostics (if its method declares some), and each round's time on its machine
    metrics = At("metrics.parquet")
    statistics = At("statistics.parquet")
    diagnostics = At("diagnostics.parquet")
    timings = At("timings.parquet")
    weights = At("weights")  # folder of a finished run's weights (`fedshift.training.weights`)
    evaluated = At("evaluated")  # folder of its evaluations (`fedshift.training.evaluate`), a file each
    summary_file = At("summary.json")  # result and costs of a finished run; written last
    failure_file = At("failure.json")  # why a run stopped: kind, text, trace, retry (whether it can help)

    @property
    def name(self) -> str:
        """The run id; for a run of earlier versions `<digest>-<code>`."""
        return self.path.name

    @property
    def digest(self) -> str:
        """The run's id (`RunSpec.run_id`)."""
        return self.name.partition("-")[0]

    def summary(self) -> Summary | None:
        """The summary of a finished run, else None."""
        return read_whole(self.summary_file) if self.outcome() is State.FINISHED else None

    def failure(self) -> Failure | None:
        """The reason of the last failure, else None; a finished run has none."""
        return read_whole(self.failure_file)

    def finish(self, summary: Summary) -> None:
        """Write the summary, which makes the run finished, and delete the record of its failure."""
        write_json(self.summary_file, summary)
        self.failure_file.unlink(missing_ok=True)

    def tidy(self) -> None:
        """Remove the checkpoint and failure that a killed process left in a finished, unlocked run."""
        if not self.writer():
            self.failure_file.unlink(missing_ok=True)
            self.checkpoint.unlink(missing_ok=True)

    def fail(self, failure: Failure) -> None:
        write_json(self.failure_file, failure)

    def retry(self) -> None:
        """Let a run that failed for good be trained again; its reason stays until then."""
        if self.failed_for_good:
            self.fail({**(self.failure() or {}), "retry": True})

    def writer(self) -> Holder | None:
        """The process that trains the run now, or None."""
        return holder(self.lock)

    def state(self) -> State:
        """The state of the run."""
        outcome = self.outcome()
        if outcome is not State.FINISHED and self.writer():
            return State.RUNNING
        return State.INTERRUPTED if outcome is State.MISSING and self.checkpoint.exists() else outcome

    def outcome(self) -> State:
        """FINISHED, FAILED or MISSING, whether or not the run is being trained again.

        A finished run has a summary and records. An incomplete file counts as missing.
        """
        if is_whole(self.summary_file) and is_whole(self.metrics, PARQUET_END):
            return State.FINISHED
        return State.FAILED if is_whole(self.failure_file) else State.MISSING

    @property
    def failed_for_good(self) -> bool:
        """Whether the run failed in a way that a retry does not change."""
        failure = self.failure() if self.outcome() is State.FAILED else None
        return failure is not None and not failure["retry"]


Failure = dict[str, Any]
# Mistakes in code or declarations, which recur on every machine. Any other error may be the machine's.
FINAL = (
    ArithmeticError, AssertionError, AttributeError, LookupError, NameError, NotImplementedError,
    RecursionError, SyntaxError, TypeError, ValueError,
)  # fmt: skip
MEMORY = re.compile(r"out of memory|OutOfMemory|MemoryError|ALLOC", re.IGNORECASE)
MACHINE = re.compile("CUDA|CUDNN|CUBLAS|CUSOLVER|CUFFT|NCCL|AcceleratorError|start new thread", re.IGNORECASE)


def failure_of(error: Exception) -> Failure:
    """The record of an error in a run.

    - retry: whether a retry can help: if a FedshiftError allows it, and after any other error except those of
      code and declarations
    - machine: whether it is a fault of the machine rather than the run: CUDA and its libraries, threads,
      reading and loading

    A plain RuntimeError is retried, too, because torch raises it for a broken GPU as well as for tensors that
    do not fit. A useless retry costs minutes, a lost run its table. Insufficient memory is not a fault of the
    machine, nor is a problem that the user must fix, such as a full disk.
    """
    of_a_file = type(error).__module__.startswith("pyarrow")  # its errors for damaged files are ValueErrors
    retry = error.retry if isinstance(error, FedshiftError) else of_a_file or not isinstance(error, FINAL)
    words = f"{type(error).__name__}: {error}"
    machine = MACHINE.search(words) is not None and not MEMORY.search(words)
    if isinstance(error, OSError | ImportError):
        machine = getattr(error, "errno", None) not in CURES
    return {
        "kind": type(error).__name__,
        "text": str(error),
        "retry": retry,
        "machine": retry and machine,
        "trace": "".join(traceback.format_exception(error)),
    }
