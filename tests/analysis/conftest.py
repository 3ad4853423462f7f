"""A project folder with finished runs, written in the format that training writes."""

import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from fedshift.analysis import tables
from fedshift.analysis.collect import collect
from fedshift.analysis.collected import Collected
from fedshift.analysis.coverage import Number, numbers
from fedshift.common.files import canonical_json, sha256
from fedshift.experiments.expand import expand
from fedshift.experiments.load import load
from fedshift.experiments.protocols import merge
from fedshift.federation.records import BINS, SCHEMA, Statistics, StatisticsTable
from fedshift.planning import planfile
from fedshift.planning.planfile import Run
from fedshift.spec import RunSpec
from fedshift.storage.workspace import Workspace

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "reference"
Accuracies = Mapping[int, Mapping[tuple[int, str], float]]


def _small(axes: dict[str, Any]) -> float:
    """A number that tells values on the axes apart, so that each point on them is a run of its own."""
    return zlib.crc32(canonical_json(axes).encode()) * 1e-12


class Project:
    """`declare` an experiment, `add` its runs, `collect` it."""

    def __init__(self, root: Path) -> None:
        self.workspace = Workspace(root)
        self.runs: list[Run] = []
        self.cells: list[planfile.Cell] = []
        presets = root / "reference" / "presets"  # a folder of its own: `fedshift tune` writes below it
        presets.mkdir(parents=True)
        for path in (*REFERENCE.iterdir(), *REFERENCE.glob("presets/*.yaml")):
            if path != REFERENCE / "presets":
                (root / "reference" / path.relative_to(REFERENCE)).symlink_to(path)

    def declare(self, name: str = "toy", **keys: Any) -> None:
        self.name = name
        path = self.workspace.root / "experiments" / f"{name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(yaml.safe_dump({"title": "A toy", "protocol": "digits", **keys}, sort_keys=False))

    def add(
        self,
        label: str,
        accuracies: Accuracies | None,
        *,
        sizes: tuple[int, ...] = (10, 30),
        test: int = 10,
        method: str = "",
        code: str = "c0decafe",
        device: str = "cpu",
        stage: str = "post_agg",
        model: str = "global",
        bn: str = "averaged",
        images: str = "1ma9e5",
        loss: float | Mapping[int, float] = 1.0,
        extra: list[dict[str, Any]] | None = None,
        statistics: Statistics | None = None,
        spec: RunSpec | None = None,
        **axes: Any,
    ) -> Path:
        """One run: accuracy by round, client and split (client -1 with split "target"); None for a run that has not finished.

        loss: the same in all rounds, or by round; spec: of a run that is to be compared with a printed one; statistics: arrays whose first axis are the sets in order; None for a
        run of before there were any.
        """
        spec = spec or self.spec(axes, method or label)
        digest = sha256(canonical_json(spec.model_dump(mode="json")))[:16]
        directory = self.workspace.run(f"{spec.place}/{digest}").path
        below = directory.relative_to(self.workspace.root).as_posix()
        target = axes.get("target") or "none"
        found = (
            digest,
            code,
            below,
            "digits",
            spec.method.name,
            target,
            spec.seed,
            spec.model_dump_json(),
            "pack",
            2,
        )
        self.runs.append(Run(*found, 0, 0, 0, 0, "", ""))
        self.cells.append(planfile.Cell(self.name, label, json.dumps(axes), digest))
        if accuracies is None:
            return directory
        directory.mkdir(parents=True)
        losses = loss if isinstance(loss, Mapping) else dict.fromkeys(accuracies, loss)
        same = {"stage": stage, "model": model, "member": 0, "n": 10, "time": 0.0}
        records = [
            {**same, "round": r, "client": client, "split": split, "metric": metric, "value": value}
            for r, values in accuracies.items()
            for (client, split), accuracy in values.items()
            for metric, value in (("accuracy", accuracy), ("loss", losses[r]))
        ]
        records += [{**records[0], **changed} for changed in extra or []]
        pq.write_table(pa.Table.from_pylist(records, SCHEMA), directory / "metrics.parquet")
        if statistics is not None:
            table = StatisticsTable()
            places = [(r, client, split) for r, values in accuracies.items() for client, split in values]
            for place, (r, client, split) in enumerate(places):
                of = Statistics(**{name: array[place] for name, array in vars(statistics).items()})
                table.add(r, stage, model, client, split, of)
            (directory / "statistics.parquet").write_bytes(table.pack())
        summary = {
            "digest": digest, "method_code": code, "dataset": "digits", "method": spec.method.name, "target": target, "seed": spec.seed,
            "spec": spec.model_dump(mode="json"), "classes": [str(digit) for digit in range(10)], "evaluates": model, "stage": stage,
            "clients": [
                {"client": k, "domains": [f"domain{k}"], "train": size, "val": 5, "test": test} for k, size in enumerate(sizes)
            ],
            "hashes": {"prepared": images}, "best_round": {"first": 0, "later": 0}, "policy": {"shared": 1, "personal": 0, "local": 0, "bn": bn},
            "costs": {
                "bytes_up": 80, "bytes_down": 80, "state_dict_bytes": 40, "macs_per_image": 7, "seconds": 1.5, "peak_memory_mb": 90.0
            },
            "environment": {"device": device, "capability": "AVX2", "threads": 1},
        }  # fmt: skip
        (directory / "summary.json").write_text(json.dumps(summary))
        return directory

    def spec(self, axes: Mapping[str, Any], method: str = "fedavg", **blocks: Any) -> RunSpec:
        """The settings of a run at a place on the axes."""
        own = {
            "data": {"dataset": "digits", "target": axes.get("target")},
            "model": {"name": "digits_cnn"},
            "method": {"name": method},
            "local": {"batch": 8, "lr": 0.1 + _small(dict(axes))},
            "federation": {"rounds": 2},
            "seed": axes.get("seed", 0),
        }
        return RunSpec.model_validate(own | blocks)

    def trained(
        self,
        values: Mapping[tuple[Any, ...], float | Accuracies | None],
        names: tuple[str, ...] = ("target", "seed"),
        **declared: Any,
    ) -> Collected:
        """Declare, add and collect runs by method and place on the axes.

        values: what a run reached in its only round, own and held out; or accuracies as in `add`.
        """
        methods, *places = ([*dict.fromkeys(column)] for column in zip(*values, strict=True))
        axes = dict(zip(names, places, strict=True))
        self.declare(**{"methods": dict.fromkeys(methods), "axes": axes} | declared)
        for (method, *place), value in values.items():
            rounds = {1: accuracy((value, value), value)} if isinstance(value, float) else value
            self.add(method, rounds, **dict(zip(names, place, strict=True)))
        return self.collect()

    def add_all(self, accuracies: Accuracies) -> Collected:
        """All runs that the declared experiment has, with one accuracy for all; collect them."""
        for cell in expand(self.workspace, load(self.workspace, self.name)):
            self.add(cell.label, accuracies, spec=cell.spec, **cell.axes)
        return self.collect()

    def plan(self) -> Path:
        path = self.workspace.root / "plan.json"
        runs = list({run.digest: run for run in self.runs}.values())
        planfile.write(path, planfile.Plan({}, runs, self.cells, []))
        return path

    def collect(self) -> Collected:
        return collect(self.workspace, self.name, self.plan())

    def shown(self, collected: Collected, name: str = "t", **keys: Any) -> pd.DataFrame:
        """The cells of a declared table, or of one with other keys."""
        table = collected.experiment.tables[name].model_copy(update=keys)
        return tables.cells(self.workspace, collected, table)

    def page(self, collected: Collected) -> str:
        """What `fedshift table` writes as Markdown."""
        return tables.write(self.workspace, collected).with_suffix(".md").read_text()


def counted(sets: int, classes: int = 10, seed: int = 0) -> Statistics:
    """Statistics of random predictions on many sets of samples."""
    rng = np.random.default_rng(seed)
    n = rng.integers(0, 6, (sets, classes))
    n[:, 0] += 1
    correct = rng.binomial(n, 0.6)
    right, wrong = (
        np.stack([rng.multinomial(total, np.full(BINS, 1 / BINS)) for total in totals.sum(-1)])
        for totals in (correct, n - correct)
    )
    confidence = (right + wrong) * (np.arange(BINS) + 0.5) / BINS
    return Statistics(n, correct, np.where(n > 0, rng.gamma(2, 1, n.shape), 0), wrong, right, confidence)


def changed(run: Path, **keys: Any) -> None:
    """Give the summary of a finished run other keys, at any depth; without those that are None."""
    file = run / "summary.json"
    summary = merge(json.loads(file.read_text()), keys)
    file.write_text(json.dumps({key: value for key, value in summary.items() if value is not None}))


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def accuracy(
    clients: tuple[float, ...], ood: float | None = None, val: tuple[float, ...] = ()
) -> dict[tuple[int, str], float]:
    """One round's accuracies: of clients on test (and validation, if given), and on the held-out domain."""
    values = {(k, "test"): value for k, value in enumerate(clients)} | {
        (k, "val"): value for k, value in enumerate(val or clients)
    }
    return values if ood is None else values | {(-1, "target"): ood}


def domains_per_client(*values: int) -> dict[str, Any]:
    """The axis of hFedF's tables, under the name that their files give it."""
    return {"key": "partition.params.d", "values": [*values]}


@pytest.fixture(scope="session")
def printed() -> list[Number]:
    """Every printed number with its cell in the project's experiments: seconds, so once for all files."""
    return numbers(Workspace(ROOT))
