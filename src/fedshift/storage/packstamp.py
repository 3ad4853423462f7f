"""The stamp of a pack, which says that nothing is left to train of it. Standard library only: the Snakefile
needs it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedshift.common.files import read_whole, write_json
from fedshift.storage.rundir import Failure, RunDirectory, State, Summary


@dataclass(frozen=True)
class PackStamp:
    """The summaries of a pack's finished runs, and the failures of those that failed for good, as JSON.

    path: results/packs/<data set>/<method>/<pack>.json
    """

    path: Path

    def finished(self) -> dict[str, Summary]:
        """Summaries by digest; none where the stamp is absent."""
        return self._by_digest("finished")

    def failed(self) -> dict[str, Failure]:
        """Failures by digest; none where the stamp is absent."""
        return self._by_digest("failed")

    def _by_digest(self, part: str) -> dict[str, Any]:
        """Stamps of earlier versions have `<digest>-<code>`."""
        runs = (read_whole(self.path) or {}).get(part, {})
        return {name.partition("-")[0]: facts for name, facts in runs.items()}

    def digests(self) -> set[str]:
        """The digests of all its runs."""
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
                finished[run.digest] = summary
            elif (failure := run.failure()) is not None and not failure["retry"]:
                failed[run.digest] = failure
            else:
                return False
        content = {"pack": self.path.stem, "finished": finished, "failed": failed}
        if read_whole(self.path) != content:
            write_json(self.path, content)
        return True

    def settle(self, runs: Iterable[RunDirectory]) -> bool:
        """Make the stamp agree with the directories of the pack's runs: write it where nothing is left to
        train, else delete it. Return whether it exists then.
        """
        runs = list(runs)
        finished = {run.digest for run in runs if run.outcome() is State.FINISHED}
        failed = {run.digest for run in runs if run.failed_for_good}
        if finished | failed != {run.digest for run in runs}:
            self.delete()
            return False
        content = read_whole(self.path) or {}
        if {*content.get("finished", ())} == finished and {*content.get("failed", ())} == failed:
            return True
        return self.write(runs)

    def delete(self) -> None:
        self.path.unlink(missing_ok=True)
