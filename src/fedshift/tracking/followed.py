"""The names of planned runs in MLflow: page, run name, and the labels by which runs are searched and compared
(docs/tracking.md).
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from fedshift.experiments.protocols import dotted
from fedshift.planning.planfile import Cell, Run

NOTE = "mlflow.note.content"  # a tag that MLflow shows as Markdown
# Of variants, in their order on a page: MLflow's own choice is by run, and may give neighbours the same.
COLOURS = ["1f77b4", "ff7f0e", "2ca02c", "d62728", "9467bd", "8c564b", "e377c2", "7f7f7f", "bcbd22", "17becf"]


@dataclass(frozen=True)
class Followed:
    """A planned run, the experiments that use it, and what makes it a variant of its method there."""

    run: Run
    experiments: tuple[str, ...]
    variant: str
    axes: dict[str, str]
    colour: str = ""

    @property
    def page(self) -> str:
        """The MLflow experiment: `<data set>/<first experiment that uses the run>`."""
        return f"{self.run.dataset}/{self.experiments[0].replace('/', '-')}"

    @property
    def name(self) -> str:
        """What MLflow's tables and legends show."""
        return f"{self.variant} | {self.run.target} | seed {self.run.seed}"

    @property
    def labels(self) -> dict[str, str]:
        """What is both a parameter (to compare by) and a tag (to search by)."""
        run = self.run
        named = {"method": run.method, "dataset": run.dataset, "target": run.target, "seed": str(run.seed)}
        return {**named, "variant": self.variant}

    @property
    def tags(self) -> dict[str, str]:
        run = self.run
        used = {
            "experiments": ", ".join(self.experiments),
            "mlflow.runColor": self.colour,
            "mlflow.source.name": f"experiments/{self.experiments[0]}.yaml",
        }
        note = f"Directory: `{run.directory}`"
        return {**self.labels, "digest": run.digest, "code": run.code, **used, NOTE: note}

    def params(self, spec: dict[str, Any]) -> dict[str, str]:
        """Labels, axes, and the run's `spec` (spec.json of its directory) without what an axis says
        already.
        """
        labelled = {"seed", "data.target", "data.dataset", "method.name"}
        values = {key: str(value) for key, value in dotted(spec) if key not in labelled}
        return {
            **{key: value for key, value in values.items() if key.rpartition(".")[2] not in self.axes},
            **self.axes,
            **self.labels,
        }


def followed(runs: Iterable[Run], cells: Iterable[Cell]) -> list[Followed]:
    """Runs with the names that experiments give them; where several use a run, the first experiment's."""
    uses: dict[str, list[Cell]] = defaultdict(list)
    for cell in cells:
        uses[cell.digest].append(cell)
    named = [_followed(run, uses[run.digest]) for run in runs if run.digest in uses]
    numbers: dict[str, dict[str, int]] = defaultdict(dict)  # of variants, by page
    for one in named:
        numbers[one.page].setdefault(one.variant, len(numbers[one.page]))
    return [replace(one, colour=f"#{COLOURS[numbers[one.page][one.variant] % 10]}") for one in named]


def _followed(run: Run, cells: list[Cell]) -> Followed:
    """A run under the names of the first cell that uses it."""
    axes = {
        key: str(value) for key, value in json.loads(cells[0].axes).items() if key not in ("target", "seed")
    }
    variant = ", ".join([cells[0].label, *(f"{key}={value}" for key, value in axes.items())])
    return Followed(run, tuple(dict.fromkeys(cell.experiment for cell in cells)), variant, axes)
