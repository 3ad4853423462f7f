"""MLflow: a follower that publishes what runs have written. The only module that imports mlflow.

Runs know nothing of it: they write their records, and the follower reads them. Every point carries the time
of its record, so sending it again adds nothing: whatever was cut off is simply sent once more. What is known
to have arrived stands in a small file in the run's directory (RunDirectory.published); without that file the
run is found again by its tags `digest` and `code`.
"""

from __future__ import annotations

import json
import logging
import os
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from fedshift.common.errors import FedshiftError
from fedshift.common.files import sha256, write_json
from fedshift.common.parquet import read_parquet
from fedshift.storage.rundir import RunDirectory, State
from fedshift.storage.workspace import Workspace
from fedshift.tracking.followed import Followed
from fedshift.tracking.pages import described
from fedshift.tracking.points import COLUMNS, final_points, points

# Before the import, which reads them: a server that is away must be noticed within seconds, not after four
# minutes of retries;
# and the client would send `create_run` again after a timeout, though the server may have done it.
os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "10")
os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "1")
os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
try:
    from mlflow import MlflowClient
    from mlflow.entities import Metric, Param, RunTag
    from mlflow.exceptions import MlflowException
except ImportError:
    raise FedshiftError(
        "fedshift track", "MLflow is not installed", "pip install 'fedshift[mlflow]'"
    ) from None

logging.getLogger("alembic").setLevel(logging.WARNING)

UNTRUSTED = 2  # errors in a row after which a pass ends: the server is away rather than one run bad


def address(workspace: Workspace) -> str:
    """Where to publish: MLFLOW_TRACKING_URI, else the SQLite file mlflow.db in the project folder."""
    return os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{workspace.root.resolve() / 'mlflow.db'}"


def shown_address(uri: str) -> str:
    """`uri` without its password."""
    return re.sub(r"//[^/@]*@", "//...@", uri)


@dataclass
class Sent:
    """What is known to have arrived at a store: the sidecar's content. `rounds`: points up to this round are
    there.
    """

    store: str
    run_id: str = ""
    rounds: int = -1
    status: str = "RUNNING"


@dataclass
class Follower:
    """Publishes runs of `workspace` to the store at `uri`, each point once; `sweep` may be called again at
    any time.
    """

    workspace: Workspace
    runs: list[Followed]
    uri: str
    metrics: tuple[str, ...] = ()  # computed from statistics, and shown besides the recorded metrics
    status: dict[str, str] = field(default_factory=dict)
    failures: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    problem: str = ""

    def __post_init__(self) -> None:
        self.store = sha256(self.uri)[:16]
        self.pages: dict[str, str] = {}
        self.client: MlflowClient | None = None

    @property
    def open(self) -> list[Followed]:
        """Runs of which something is not yet published; those with errors come last."""
        left = [followed for followed in self.runs if self.status.get(followed.run.name) != "FINISHED"]
        return sorted(left, key=lambda followed: self.failures[followed.run.name])

    def sweep(self) -> Iterator[int]:
        """Publish what is new, run by run; yields numbers of newly published rounds. Errors end in `problem`
        and are tried again next time.
        """
        self.problem, in_a_row = "", 0
        for followed in self.open:
            try:
                yield self._publish(followed)
                in_a_row = 0
            except Exception as error:  # the store away, locked, half up: a follower waits and tries again
                self.failures[followed.run.name] += 1
                self.problem = f"{followed.run.directory}: {str(error).strip() or type(error).__name__}"
                in_a_row += 1
                if in_a_row == UNTRUSTED:
                    return

    def describe(self) -> dict[str, dict[str, str]]:
        """Write the note of every page that has runs; the addresses of its views, by page. Where MLflow does
        not answer they are left out.
        """
        try:
            self.client = self.client or MlflowClient(self.uri)
            return described(self.workspace, self.runs, self.client, shown_address(self.uri))
        except MlflowException as error:
            self.problem = self.problem or str(error)
            return {}

    def _publish(self, followed: Followed) -> int:
        """Send what is new of a run; return how many rounds that added."""
        directory = self.workspace.run_at(followed.run.directory)
        if not directory.path.is_dir():
            return 0
        sent = self._sent(directory.published)
        before = sent.rounds
        status, outcome = _state(directory)
        if sent.status != "FINISHED":
            records = _read(directory, "metrics", sent.rounds, whole=status == "FINISHED")
            if records is None and not sent.run_id and status != "FAILED":
                return 0
            if records is not None or sent.status != status:
                self._send(followed, sent, status, outcome, records)
                write_json(directory.published, vars(sent))
        self.status[followed.run.name] = sent.status
        self.failures.pop(followed.run.name, None)
        return max(0, sent.rounds) - max(0, before)

    def _sent(self, path: Path) -> Sent:
        try:
            sent = Sent(**json.loads(path.read_text()))
        except (OSError, ValueError, TypeError):
            return Sent(self.store)
        return sent if sent.store == self.store else Sent(self.store)

    def _send(
        self, followed: Followed, sent: Sent, status: str, outcome: dict[str, Any], records: pa.Table | None
    ) -> None:
        """Create or continue the run in the store: points, parameters, tags, and its end."""
        self.client = self.client or MlflowClient(self.uri)
        known = [] if sent.run_id and status == sent.status else self._known(followed)
        params: list[Param] = []
        if not sent.run_id:
            sent.run_id, params = self._run(followed, known, records)
        new_points, tags, end = [], {}, None
        if records is not None:
            new = records.filter(pc.greater(records["round"], sent.rounds))
            directory = self.workspace.run_at(followed.run.directory)
            statistics = (
                _read(directory, "statistics", sent.rounds, whole=status == "FINISHED")
                if self.metrics
                else None
            )
            new_points = points(new, statistics, self.metrics)
            end = round(1000 * pc.max(records["time"]).as_py())
            if status == "FINISHED":
                new_points += final_points(outcome, records)
                machine = outcome["environment"]
                tags = {"device": str(machine["device"]), "bn": outcome["policy"]["bn"]}
                tags |= {"commit": machine["commit"]} if machine.get("commit") else {}
        if status == "FAILED":
            tags = {"failure": f"{outcome['kind']}: {outcome['text']}"[:1000]}
        metrics = [Metric(point.name, point.value, point.time, point.round) for point in new_points]
        self._tidy(known, sent)
        self.client.log_batch(
            sent.run_id, metrics, params, [RunTag(key, value) for key, value in tags.items()]
        )
        if status != sent.status:
            if status == "RUNNING":
                self.client.update_run(sent.run_id, status)
            else:
                self.client.set_terminated(sent.run_id, status, end)
        sent.status = status
        if records is not None:
            sent.rounds = max(sent.rounds, pc.max(records["round"]).as_py())

    def _known(self, followed: Followed) -> list[Any]:
        """The store's runs with this digest and code, those with metrics first."""
        assert self.client is not None
        self._page(followed.page)
        query = f"tags.digest = '{followed.run.digest}' and tags.code = '{followed.run.code}'"
        runs = self.client.search_runs(list(self.pages.values()), query)
        return sorted(runs, key=lambda run: (-len(run.data.metrics), run.info.run_id))

    def _run(self, followed: Followed, known: list[Any], records: pa.Table | None) -> tuple[str, list[Param]]:
        """The id of the run, created where the store has none, and the parameters that it does not have
        yet.
        """
        assert self.client is not None
        if known:
            run_id, known_params = known[0].info.run_id, known[0].data.params
        else:
            start = None if records is None else round(1000 * pc.min(records["time"]).as_py())
            page = self._page(followed.page)
            run_id, known_params = (
                self.client.create_run(page, start, followed.tags, followed.name).info.run_id,
                {},
            )
        path = self.workspace.run_at(followed.run.directory).spec
        spec = json.loads(path.read_text() if path.is_file() else followed.run.spec)
        return run_id, [
            Param(key, value) for key, value in followed.params(spec).items() if key not in known_params
        ]

    def _tidy(self, known: list[Any], sent: Sent) -> None:
        """Drop the reason of a failure that is over, and empty doubles: a server that hung may have created a
        run after all.
        """
        assert self.client is not None
        for run in known:
            if run.info.run_id != sent.run_id and not run.data.metrics:
                self.client.delete_run(run.info.run_id)
            elif run.info.run_id == sent.run_id and "failure" in run.data.tags:
                self.client.delete_tag(sent.run_id, "failure")

    def _page(self, name: str) -> str:
        """The id of an MLflow experiment, created where there is none; `pages` then holds all of the
        store.
        """
        assert self.client is not None
        if name not in self.pages:
            self.pages = {page.name: page.experiment_id for page in self.client.search_experiments()}
        if name not in self.pages:
            self.pages[name] = self.client.create_experiment(name)
        return self.pages[name]


def _state(run: RunDirectory) -> tuple[str, dict[str, Any]]:
    """MLflow's name for how far a run is, with its summary or failure. The
    lock is read only where an attempt has failed.
    """
    if (summary := run.summary()) is not None:
        return "FINISHED", summary
    if (failure := run.failure()) is not None and run.state() is State.FAILED:
        return "FAILED", failure
    return "RUNNING", {}


def _read(run: RunDirectory, kind: str, after: int, *, whole: bool) -> pa.Table | None:
    """Records ("metrics") or statistics of a finished run, or of those segments of a running run that end
    after round `after`.
    """
    columns = COLUMNS if kind == "metrics" else None
    if whole:
        path = run.metrics if kind == "metrics" else run.statistics
        return read_parquet(path, columns=columns) if kind == "metrics" or path.is_file() else None
    folder = run.segments if kind == "metrics" else run.statistics_segments
    paths = [path for path in sorted(folder.glob("*.parquet")) if int(path.stem.partition("-")[2]) > after]
    return pa.concat_tables([read_parquet(path, columns=columns) for path in paths]) if paths else None
