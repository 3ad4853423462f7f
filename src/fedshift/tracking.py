"""MLflow: a follower that publishes what runs have written. The only module that imports mlflow.

Runs know nothing of it: they write their records, and the follower reads them. Every point carries the time of its record, so
sending it again adds nothing: whatever was cut off is simply sent once more. What is known to have arrived stands in a small file
in the run's directory (SIDECAR); without that file the run is found again by its tags `digest` and `code`.
"""

from __future__ import annotations

import json
import logging
import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fedshift.errors import FedshiftError
from fedshift.files import sha256, write_json
from fedshift.planfile import Cell, Run
from fedshift.points import COLUMNS, final_points, points

# Before the import, which reads them: a server that is away must answer within seconds, not after four minutes of retries.
os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "10")
os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "1")
os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
try:
    from mlflow import MlflowClient
    from mlflow.entities import Metric, Param, RunTag
except ImportError:
    raise FedshiftError(
        "fedshift track", "MLflow is not installed", "pip install 'fedshift[mlflow]'"
    ) from None

logging.getLogger("alembic").setLevel(logging.WARNING)

SIDECAR = "mlflow.json"
# MLflow's own choice, by a hash of the run's id, may give neighbours the same colour.
COLOURS = (
    "#1f77b4",
    "#ff7f0e",
    "#2ca02c",
    "#d62728",
    "#9467bd",
    "#8c564b",
    "#e377c2",
    "#7f7f7f",
    "#bcbd22",
    "#17becf",
)
UNTRUSTED = 2  # errors in a row after which a pass ends: the server is away rather than one run bad


def address(root: Path) -> str:
    """Where to publish: MLFLOW_TRACKING_URI, else the SQLite file mlflow.db in the project folder."""
    return os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{root.resolve() / 'mlflow.db'}"


def shown_address(uri: str) -> str:
    """`uri` without its password."""
    return re.sub(r"//[^/@]*@", "//...@", uri)


# ---- what a run is called


@dataclass(frozen=True)
class Followed:
    """A planned run, the experiments that use it, and what makes it a variant of its method there."""

    run: Run
    experiments: tuple[str, ...]
    variant: str
    axes: dict[str, str]
    colour: str

    @property
    def page(self) -> str:
        """The MLflow experiment: `<data set>/<first experiment that uses the run>`."""
        return f"{self.run.dataset}/{self.experiments[0].replace('/', '-')}"

    @property
    def labels(self) -> dict[str, str]:
        """What is both a parameter (to compare by) and a tag (to search by)."""
        run = self.run
        named = {"method": run.method, "dataset": run.dataset, "target": run.target, "seed": str(run.seed)}
        return {**named, "variant": self.variant}

    @property
    def tags(self) -> dict[str, str]:
        run = self.run
        used = {"experiments": ", ".join(self.experiments), "mlflow.runColor": self.colour}
        return {**self.labels, "digest": run.digest, "code": run.code, **used}

    @property
    def params(self) -> dict[str, str]:
        """Labels, axes, and the resolved spec without what an axis says already."""
        said = {"seed", "data.target", "data.dataset", "method.name"}
        spec = {key: value for key, value in _flat(json.loads(self.run.spec)).items() if key not in said}
        return {
            **{key: value for key, value in spec.items() if key.rpartition(".")[2] not in self.axes},
            **self.axes,
            **self.labels,
        }


def followed(runs: Iterable[Run], cells: Iterable[Cell]) -> list[Followed]:
    """Runs with the names that experiments give them; where several use a run, the first one's."""
    uses: dict[str, list[Cell]] = defaultdict(list)
    for cell in cells:
        uses[cell.digest].append(cell)
    used = [run for run in runs if run.digest in uses]
    return [_followed(run, uses[run.digest], COLOURS[k % len(COLOURS)]) for k, run in enumerate(used)]


def _followed(run: Run, cells: list[Cell], colour: str) -> Followed:
    axes = {
        key: str(value) for key, value in json.loads(cells[0].axes).items() if key not in ("target", "seed")
    }
    variant = ", ".join([cells[0].label, *(f"{key}={value}" for key, value in axes.items())])
    return Followed(run, tuple(dict.fromkeys(cell.experiment for cell in cells)), variant, axes, colour)


def _flat(value: dict[str, Any], prefix: str = "") -> dict[str, str]:
    named: dict[str, str] = {}
    for key, inner in value.items():
        named |= (
            _flat(inner, f"{prefix}{key}.") if isinstance(inner, dict) else {f"{prefix}{key}": str(inner)}
        )
    return named


# ---- publishing


@dataclass
class Sent:
    """What is known to have arrived at a store: the sidecar's content. `rounds`: points up to this round are there."""

    store: str
    run_id: str = ""
    rounds: int = -1
    status: str = "RUNNING"


@dataclass
class Follower:
    """Publishes runs below `root` to the store at `uri`, each point once; `sweep` may be called as often as one likes."""

    root: Path
    runs: list[Followed]
    uri: str
    status: dict[str, str] = field(default_factory=dict)
    failures: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    problem: str = ""

    def __post_init__(self) -> None:
        self.store = sha256(self.uri)[:16]
        self.pages: dict[str, str] = {}
        self.client: MlflowClient | None = None

    @property
    def open(self) -> list[Followed]:
        """Runs of which not everything is published, those that made trouble last."""
        left = [one for one in self.runs if self.status.get(one.run.name) != "FINISHED"]
        return sorted(left, key=lambda one: self.failures[one.run.name])

    def sweep(self) -> Iterator[int]:
        """Publish what is new, run by run; yields numbers of newly published rounds. Errors end in `problem` and are tried again next time."""
        self.problem, in_a_row = "", 0
        for one in self.open:
            try:
                yield self._publish(one)
                in_a_row = 0
            except (
                Exception
            ) as error:  # whatever it is - the store away, locked, half up - a follower waits and tries again
                self.failures[one.run.name] += 1
                self.problem = f"{one.run.directory}: {str(error).strip() or type(error).__name__}"
                in_a_row += 1
                if in_a_row == UNTRUSTED:
                    return

    def _publish(self, one: Followed) -> int:
        directory = self.root / one.run.directory
        path = directory / SIDECAR
        sent = self._sent(path)
        before = sent.rounds
        status, told = _state(directory)
        if sent.status != "FINISHED":
            records = _records(directory, sent.rounds, whole=status == "FINISHED")
            if records is None and not sent.run_id and status != "FAILED":
                return 0
            if records is not None or sent.status != status:
                self._send(one, sent, status, told, records)
                write_json(path, vars(sent))
        self.status[one.run.name] = sent.status
        self.failures.pop(one.run.name, None)
        return max(0, sent.rounds) - max(0, before)

    def _sent(self, path: Path) -> Sent:
        try:
            sent = Sent(**json.loads(path.read_text()))
        except (OSError, ValueError, TypeError):
            return Sent(self.store)
        return sent if sent.store == self.store else Sent(self.store)

    def _send(
        self, one: Followed, sent: Sent, status: str, told: dict[str, Any], records: pa.Table | None
    ) -> None:
        self.client = self.client or MlflowClient(self.uri)
        sent.run_id = sent.run_id or self._run(one, records)
        shown, tags, end = [], {}, None
        if records is not None:
            new = records.filter(pc.greater(records["round"], sent.rounds))
            shown = points(new)
            end = round(1000 * pc.max(records["time"]).as_py())
            if status == "FINISHED":
                shown += final_points(told, records)
                tags = {"device": str(told["environment"]["device"]), "bn": told["policy"]["bn"]}
        if status == "FAILED":
            tags = {"failure": f"{told['kind']}: {told['text']}"[:1000]}
        metrics = [Metric(point.name, point.value, point.time, point.round) for point in shown]
        self.client.log_batch(sent.run_id, metrics, tags=[RunTag(key, value) for key, value in tags.items()])
        if status != sent.status:
            if status == "RUNNING":
                self.client.update_run(sent.run_id, status)
            else:
                self.client.set_terminated(sent.run_id, status, end)
        sent.status = status
        if records is not None:
            sent.rounds = max(sent.rounds, pc.max(records["round"]).as_py())

    def _run(self, one: Followed, records: pa.Table | None) -> str:
        """The run's id in the store: found by its tags, else created."""
        assert self.client is not None
        pages = [page.experiment_id for page in self.client.search_experiments()]
        query = f"tags.digest = '{one.run.digest}' and tags.code = '{one.run.code}'"
        known = self.client.search_runs(pages, query, max_results=1)
        if known:
            run_id, there = known[0].info.run_id, known[0].data.params
        else:
            start = None if records is None else round(1000 * pc.min(records["time"]).as_py())
            name = f"{one.variant} | {one.run.target} | seed {one.run.seed}"
            run_id, there = (
                self.client.create_run(self._page(one.page), start, one.tags, name).info.run_id,
                {},
            )
        missing = [Param(key, value) for key, value in one.params.items() if key not in there]
        self.client.log_batch(run_id, params=missing)
        return run_id

    def _page(self, name: str) -> str:
        assert self.client is not None
        if name not in self.pages:
            known = self.client.get_experiment_by_name(name)
            self.pages[name] = known.experiment_id if known else self.client.create_experiment(name)
        return self.pages[name]


def _state(directory: Path) -> tuple[str, dict[str, Any]]:
    """MLflow's name for where a run stands, with its summary or failure."""
    if (directory / "summary.json").is_file():
        return "FINISHED", json.loads((directory / "summary.json").read_text())
    if (directory / "failure.json").is_file() and not (directory / "claim.json").is_file():
        return "FAILED", json.loads((directory / "failure.json").read_text())
    return "RUNNING", {}


def _records(directory: Path, after: int, *, whole: bool) -> pa.Table | None:
    """Records of a finished run, or of the segments of a running one that end after round `after`."""
    if whole:
        return pq.read_table(directory / "metrics.parquet", columns=COLUMNS)
    paths = [
        path
        for path in sorted(directory.glob("segments/*.parquet"))
        if int(path.stem.partition("-")[2]) > after
    ]
    return pa.concat_tables([pq.read_table(path, columns=COLUMNS) for path in paths]) if paths else None
