"""Paths of data, results and reference below one root.

Standard library only: the Snakefile needs it. The names of a spec's data and results are properties of
`RunSpec`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedshift.common.files import read_whole, write_json
from fedshift.storage.rundir import At, Failure, RunDirectory, State, Summary

TUNING = ".tuning"  # ends the name of an experiment that is the tuning of another
RUNS = "runs/*/*/*/*/*/"  # directories of runs below results


def project_folder() -> Path:
    """The project folder around the current folder, relative to it; the current one if there is none."""
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / "reference" / "protocols").is_dir():
            return Path(os.path.relpath(folder))
    return Path()


@dataclass(frozen=True)
class Workspace:
    """A project folder with the layout of docs/run-directory.md.

    root: the folder; paths are relative if it is.
    """

    root: Path

    experiments = At("experiments")  # one YAML file each
    reference = At("reference")  # protocols, presets, manifests and published numbers
    results = At("results")
    archive = At("results-archive")  # archived runs, in git (`fedshift.archive`)
    nodes = At("results/nodes")  # what failed on the nodes of a cluster (`fedshift.planning.cluster`)
    scorecard = At("results/scorecard.html")  # counts of published numbers and claims by verdict

    def raw(self, dataset: str, release: str) -> Path:
        """The folder of a data set's published files."""
        return self.root / "data" / "raw" / dataset / release

    def manifests(self) -> list[Path]:
        """All manifests of data sets: those of the project, and those next to raw folders."""
        beside = (self.root / "data" / "raw").glob("*/*.manifest.json")
        return sorted([*(self.reference / "datasets").glob("*.json"), *beside])

    def prepared(self, name: str) -> Path:
        """The folder of decoded images, by `prepared_name` of a spec."""
        return self.root / "data" / "prepared" / name

    def partition(self, name: str) -> Path:
        """The Parquet file of a partition, by `partition_name` of a spec."""
        return self.root / "data" / "partitions" / f"{name}.parquet"

    def rendered(self, name: str) -> Path:
        """The folder of images that a method makes before training, by `rendered_name` of a spec."""
        return self.root / "data" / "rendered" / name

    def plan(self, key: str) -> Path:
        """The file of a plan, by `planfile.location`'s key."""
        return self.results / "plan" / f"{key}.json"

    def run(self, name: str) -> RunDirectory:
        """The directory of a run, by `RunSpec.run_name`."""
        return found(self.results / "runs" / name)

    def runs(self) -> Iterator[RunDirectory]:
        """The directories of all runs that exist, in order."""
        return map(RunDirectory, sorted(self.results.glob(RUNS)))

    def has_runs(self) -> bool:
        """Whether the directory of any run exists."""
        return any(self.results.glob(RUNS))

    def name_of(self, run: RunDirectory) -> str:
        """The name (`RunSpec.run_name`) of a run below results/runs."""
        return run.path.relative_to(self.results / "runs").as_posix()

    def archived(self, name: str) -> Path:
        """The folder of a run's archived files, by `RunSpec.run_name`."""
        return (self.archive / name).parent

    def unpacked(self, content: str) -> Path:
        """The folder in which an archived run is unpacked, by the hash of its file."""
        return self.results / "archived" / content

    def run_at(self, directory: str) -> RunDirectory:
        """The directory of a run by its path below the root, as in plans and tables."""
        return found(self.root / directory)

    def pack(self, name: str) -> PackStamp:
        """The stamp of a pack, by `planfile.Run.stamp`."""
        return PackStamp(self.results / "packs" / f"{name}.json")

    def packs(self) -> list[PackStamp]:
        """All existing stamps."""
        return [PackStamp(path) for path in sorted((self.results / "packs").rglob("*.json"))]

    def metrics(self, experiment: str) -> Path:
        """The Parquet file of the records of an experiment's runs."""
        return self.results / "metrics" / f"{experiment}.parquet"

    def collected(self, experiment: str) -> Path:
        """The mark that all runs of an experiment were collected; it only exists while all stamps do."""
        return self.results / "metrics" / f"{experiment}.collected"

    def evaluated(self, experiment: str) -> Path:
        """The folder of an experiment's evaluations, a Parquet file for each."""
        return self.results / "metrics" / f"{experiment}.evaluated"

    def tuned(self, experiment: str) -> Path:
        """The preset of a tuned experiment: the settings that its search chose."""
        return self.reference / "presets" / "tuned" / f"{experiment}.yaml"

    def tables(self, experiment: str) -> Path:
        return self.results / "tables" / experiment

    def exported(self, experiment: str) -> Path:
        """The folder of tables for papers."""
        return self.results / "export" / experiment

    def figures(self, experiment: str) -> Path:
        return self.results / "figures" / experiment

    def report(self, name: str) -> Path:
        """The folder of the report of an experiment, or of all ("all")."""
        return self.results / "report" / name


def found(path: Path) -> RunDirectory:
    """The directory at `path`, or the last finished one of the same run id with a suffix.

    Earlier versions named directories `<digest>-<code>`; so does `retrain`, whose directories are used if the
    new one is lost.
    """
    others = [] if path.exists() else map(RunDirectory, path.parent.glob(f"{path.name}-*"))
    finished = [other for other in others if other.outcome() is State.FINISHED]
    return max(finished, key=lambda other: other.summary_file.stat().st_mtime, default=RunDirectory(path))


@dataclass(frozen=True)
class PackStamp:
    """The summaries of a pack's finished runs, and the failures of those that failed for good, as JSON.

    path: results/packs/<data set>/<method>/<pack>.json
    """

    path: Path

    def finished(self) -> dict[str, Summary]:
        """Summaries by run id; empty if the stamp is absent."""
        return self._by_digest("finished")

    def failed(self) -> dict[str, Failure]:
        """Failures by run id; empty if the stamp is absent."""
        return self._by_digest("failed")

    def _by_digest(self, part: str) -> dict[str, Any]:
        """A part of the stamp by run id; stamps of earlier versions have `<digest>-<code>`."""
        runs = (read_whole(self.path) or {}).get(part, {})
        return {name.partition("-")[0]: facts for name, facts in runs.items()}

    def digests(self) -> set[str]:
        """The ids of all its runs."""
        return {*self.finished(), *self.failed()}

    def write(self, runs: Iterable[RunDirectory]) -> bool:
        """Write the stamp if all runs of the pack are done; returns whether they are.

        A run that failed for good counts as done. A stamp with the same content is not written again.
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
        """Write the stamp if nothing is left to train, else delete it; returns whether it exists."""
        runs = list(runs)
        finished = {run.digest for run in runs if run.outcome() is State.FINISHED}
        failed = {run.digest for run in runs if run.failed_for_good}
        if finished | failed != {run.digest for run in runs}:
            self.delete()
            return False
        content = read_whole(self.path) or {}
        same = {*content.get("finished", ())} == finished and {*content.get("failed", ())} == failed
        return same or self.write(runs)

    def delete(self) -> None:
        self.path.unlink(missing_ok=True)
