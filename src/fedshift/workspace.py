"""Where everything lies, below one root: the only place that builds paths of data and results."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fedshift.build import rendering_of
from fedshift.files import canonical_json, sha256
from fedshift.identity import fingerprint
from fedshift.registry import get, module
from fedshift.spec import Division, Prepare, RunSpec, Source


def _short(value: object) -> str:
    return sha256(canonical_json(value))[:12]


@dataclass(frozen=True)
class Workspace:
    """A project folder: `data/` and `results/` below `root`, laid out as docs/runs.md tells."""

    root: Path

    def raw(self, dataset: str, release: str) -> Path:
        return self.root / "data" / "raw" / dataset / release

    def prepared_at(self, dataset: str, release: str, prepare: Prepare) -> Path:
        """The folder of decoded images; named by pixels and a recipe that covers release, resampling, the data set's version and the code
        that lists, reads and resizes its images.

        Not covered is what makes or checks a raw tree (fetch, convert, verify): prepared.json holds the tree's own hash.
        """
        version = get("datasets", dataset).version
        code = fingerprint("fedshift.data.prepare", module("datasets", dataset))
        recipe = _short([release, prepare.model_dump(exclude_defaults=True), version, code])
        return self.root / "data" / "prepared" / dataset / f"{prepare.px}-{recipe}"

    def prepared(self, data: Source) -> Path:
        return self.prepared_at(data.dataset, data.release, data.prepare)

    def partition(self, spec: Division) -> Path:
        """The partition's Parquet file; named by everything that decides who holds which sample, the code that does it included.

        The data set's module decides domains, classes, official splits and duplicates.
        """
        plugins = [
            ("partitions", spec.partition.scheme),
            *(("modifiers", name) for name in spec.partition.modify),
        ]
        recipe = [
            spec.data.release,
            get("datasets", spec.data.dataset).version,
            spec.partition.model_dump(exclude_defaults=True),
            *(get(*plugin).version for plugin in plugins),
            fingerprint(
                "fedshift.data.partition",
                module("datasets", spec.data.dataset),
                *(module(*plugin) for plugin in plugins),
            ),
        ]
        name = _short([*recipe, spec.data.target, spec.seed])
        return self.root / "data" / "partitions" / spec.data.dataset / f"{name}.parquet"

    def rendered(self, spec: RunSpec) -> Path:
        """The folder of images that a run's method makes before training, if it does; named by what they are made of and how."""
        rendering = rendering_of(spec)
        assert rendering is not None
        name = rendering.name
        made_by = [name, rendering.version, fingerprint(module("renderings", name))]
        made_of = [spec.method.params, self.prepared(spec.data).name, self.partition(spec).stem]
        return self.root / "data" / "rendered" / spec.data.dataset / _short([*made_by, *made_of])

    def run(self, spec: RunSpec, digest: str, code: str) -> Path:
        where = (
            self.results / "runs" / spec.data.dataset / spec.method.name / (spec.data.target_name or "none")
        )
        return where / f"seed{spec.seed}" / f"{digest}-{code}"

    def adapted(self, run: str) -> Path:
        return self.results / "adapted" / run

    @property
    def results(self) -> Path:
        return self.root / "results"

    def pack(self, pack: str) -> Path:
        return self.results / "packs" / f"{pack}.json"

    def metrics(self, experiment: str) -> Path:
        return self.results / "metrics" / f"{experiment}.parquet"

    def tables(self, experiment: str) -> Path:
        return self.results / "tables" / experiment

    def figures(self, experiment: str) -> Path:
        return self.results / "figures" / experiment
