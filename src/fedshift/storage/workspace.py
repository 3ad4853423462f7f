"""Where data, results and reference lie, below one root.

Standard library only: the Snakefile needs it. What a spec's data and results are called `fedshift.identity`
says.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fedshift.storage.packstamp import PackStamp
from fedshift.storage.rundir import RunDirectory

TUNING = ".tuning"  # ends the name of an experiment that is the tuning of another


@dataclass(frozen=True)
class Workspace:
    """A project folder, laid out as docs/runs.md says.

    root: the folder; paths are relative where it is.
    """

    root: Path

    @property
    def commit(self) -> str:
        """The commit of the checkout, and whether its code (src) differs from it; "" outside a repository."""

        def git(*words: str) -> str:
            command = ["git", "-C", str(self.root), *words]
            return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()

        name = git("rev-parse", "HEAD") if shutil.which("git") else ""
        differs = name and git("status", "--porcelain", "--", "src")
        return f"{name} with uncommitted changes" if differs else name

    @property
    def experiments(self) -> Path:
        """The folder of experiments, one YAML file each."""
        return self.root / "experiments"

    @property
    def reference(self) -> Path:
        """The folder of protocols, presets, manifests and published numbers."""
        return self.root / "reference"

    def raw(self, dataset: str, release: str) -> Path:
        """The folder of a data set's files as they were published."""
        return self.root / "data" / "raw" / dataset / release

    def manifests(self) -> list[Path]:
        """Every list of a data set's files: those of the project, and those beside raw folders."""
        beside = (self.root / "data" / "raw").glob("*/*.manifest.json")
        return sorted([*(self.reference / "datasets").glob("*.json"), *beside])

    def prepared(self, name: str) -> Path:
        """The folder of decoded images, by `identity.prepared_name`."""
        return self.root / "data" / "prepared" / name

    def partition(self, name: str) -> Path:
        """The Parquet file of a partition, by `identity.partition_name`."""
        return self.root / "data" / "partitions" / f"{name}.parquet"

    def rendered(self, name: str) -> Path:
        """The folder of images that a method makes before training, by `identity.rendered_name`."""
        return self.root / "data" / "rendered" / name

    @property
    def results(self) -> Path:
        return self.root / "results"

    def plan(self, key: str) -> Path:
        """The file of a plan, by `planfile.location`'s key."""
        return self.results / "plan" / f"{key}.db"

    def run(self, name: str) -> RunDirectory:
        """The directory of a run, by `identity.run_name`."""
        return RunDirectory(self.results / "runs" / name)

    def runs(self) -> Iterator[RunDirectory]:
        """The directories of all runs that exist, in order."""
        for path in sorted((self.results / "runs").glob("*/*/*/*/*/")):
            yield RunDirectory(path)

    def name_of(self, run: RunDirectory) -> str:
        """The name (`identity.run_name`) of a run below results/runs."""
        return run.path.relative_to(self.results / "runs").as_posix()

    @property
    def archive(self) -> Path:
        """The folder of archived runs, which is in git (`fedshift.archive`)."""
        return self.root / "results-archive"

    def archived(self, name: str) -> Path:
        """The folder of a run's archived files, by `identity.run_name`."""
        return (self.archive / name).parent

    def archived_choices(self, experiment: str) -> Path:
        """The folder of the archived choices of a tuned experiment."""
        return self.archive / "tuning" / experiment

    def unpacked(self, content: str) -> Path:
        """The folder in which an archived run is unpacked, by the hash of its file."""
        return self.results / "archived" / content

    def run_at(self, directory: str) -> RunDirectory:
        """The directory of a run as plans and tables name it: by its path below the root."""
        return RunDirectory(self.root / directory)

    def pack(self, pack: str) -> PackStamp:
        return PackStamp(self.results / "packs" / f"{pack}.json")

    def attempts(self, pack: str) -> Path:
        """How the jobs of a pack have ended (`fedshift.planning.attempts`)."""
        return self.results / "attempts" / f"{pack}.json"

    def packs(self) -> list[PackStamp]:
        """The stamps that exist."""
        return [PackStamp(path) for path in sorted((self.results / "packs").glob("*.json"))]

    def metrics(self, experiment: str) -> Path:
        """The Parquet file of the records of an experiment's runs."""
        return self.results / "metrics" / f"{experiment}.parquet"

    def evaluated(self, experiment: str) -> Path:
        """The folder of what was computed of an experiment's runs, a Parquet file for each evaluation."""
        return self.results / "metrics" / f"{experiment}.evaluated"

    def choices(self, experiment: str) -> Path:
        """The folder of what the tuning of an experiment has chosen, a file for each search."""
        return self.results / "tuning" / experiment

    def tables(self, experiment: str) -> Path:
        return self.results / "tables" / experiment

    def exported(self, experiment: str) -> Path:
        """The folder of tables for papers."""
        return self.results / "export" / experiment

    def figures(self, experiment: str) -> Path:
        return self.results / "figures" / experiment

    @property
    def scorecard(self) -> Path:
        """The page that counts printed numbers, comparisons and sentences by verdict."""
        return self.results / "scorecard.html"

    def report(self, name: str) -> Path:
        """The folder of the report of an experiment, or of all ("all")."""
        return self.results / "report" / name
