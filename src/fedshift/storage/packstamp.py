"""The stamp of a pack, which says that nothing is left to train of it. Standard library only: the Snakefile
needs it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from fedshift.common.files import is_whole, read_whole, write_json
from fedshift.storage.rundir import Failure, RunDirectory, State, Summary


@dataclass(frozen=True)
class PackStamp:
    """The summaries of a pack's finished runs, and the failures of those that failed for good, as JSON.

    path: results/packs/<pack>.json
    """

    path: Path

    def finished(self) -> dict[str, Summary]:
        """Summaries by `<digest>-<code>`; none where the stamp is absent."""
        return (read_whole(self.path) or {}).get("finished", {})

    def failed(self) -> dict[str, Failure]:
        """Failures by `<digest>-<code>`; none where the stamp is absent."""
        return (read_whole(self.path) or {}).get("failed", {})

    def names(self) -> set[str]:
        """The names of all its runs."""
        return {*self.finished(), *self.failed()}

    def write(self, runs: Iterable[RunDirectory]) -> bool:
        """Write the stamp once nothing is left to do for the pack's runs, and return whether that is so.

        A run that failed for good counts as done. A stamp that says the same already is left alone.
        """
        finished: dict[str, Summary] = {}
        failed: dict[str, Failure] = {}
        for run in runs:
            if (summary := run.summary()) is not None:
                run.tidy()
                finished[run.name] = summary
            elif (failure := run.failure()) is not None and not failure["retry"]:
                failed[run.name] = failure
            else:
                return False
        content = {"pack": self.path.stem, "finished": finished, "failed": failed}
        if read_whole(self.path) != content:
            write_json(self.path, content)
        return True

    @property
    def torn(self) -> bool:
        """Whether a crash of the machine tore the stamp, which then says nothing."""
        return self.path.exists() and not is_whole(self.path)

    def delete(self) -> None:
        self.path.unlink(missing_ok=True)


def stamp_finished(packs: Iterable[tuple[PackStamp, list[RunDirectory]]]) -> None:
    """Write the stamps of packs whose runs are all finished; of others delete what a crash has made wrong: a
    torn stamp, and that of a torn summary.
    """
    for stamp, runs in packs:
        if all(run.outcome() is State.FINISHED for run in runs):
            stamp.write(runs)
        elif stamp.torn or any(run.torn for run in runs):
            stamp.delete()


def forget_failures(runs: Iterable[RunDirectory], stamps: Iterable[PackStamp]) -> int:
    """Forget failures for good, and delete the stamps that name failed runs, so that they are asked for
    again; return how many stamps.

    runs: the members of the packs of `stamps`.
    """
    for run in runs:
        if run.failed_for_good:
            run.forget_failure()
    stale = [stamp for stamp in stamps if stamp.failed()]
    for stamp in stale:
        stamp.delete()
    return len(stale)
