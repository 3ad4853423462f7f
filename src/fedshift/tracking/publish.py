"""MLflow follower: publishes the records of runs.

Runs are independent of it: they write their records, and the follower reads them. One search of the store
shows what has arrived; the follower has no other memory. Every point has the time of its record, so sending
it again adds nothing. After an interruption, everything missing is sent again.
"""

import json
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from mlflow import MlflowClient
from mlflow.entities import Dataset, DatasetInput, InputTag, Metric, Param, RunTag, ViewType

from fedshift.analysis.collected import timed_records
from fedshift.common.errors import FedshiftError
from fedshift.common.parquet import read_parquet
from fedshift.federation.records import reproducible, timed, timings
from fedshift.storage.rundir import RunDirectory, State
from fedshift.storage.workspace import Workspace
from fedshift.tracking.pages import Followed, described
from fedshift.tracking.points import COLUMNS, final_points, points
from fedshift.tracking.store import client_of, every, trouble

UNTRUSTED = 2  # errors in a row after which a pass ends: the server is away rather than one run bad
AT_ONCE = 100  # runs of one answer: a busy server gives it within MLFLOW_HTTP_REQUEST_TIMEOUT


@dataclass
class Sent:
    """The state of a run in the store: it has points up to round `rounds`, which is a tag of the run."""

    run_id: str
    status: str = "RUNNING"
    rounds: int = -1
    params: set[str] = field(default_factory=set)
    failed: bool = False  # it has the reason of a failure


@dataclass
class Follower:
    """Publishes runs of `workspace` to the store at `uri`, each point once; `sweep` may be called
    repeatedly.
    """

    workspace: Workspace
    runs: list[Followed]
    uri: str
    metrics: tuple[str, ...] = ()  # computed from statistics, and shown besides the recorded metrics
    sent: dict[str, Sent] = field(default_factory=dict)  # by the run's id
    failures: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    problem: FedshiftError | None = None
    pages: dict[str, str] = field(default_factory=dict)  # of the store: name -> id
    client: MlflowClient | None = None  # of a store that answers
    asked: bool = False  # what it has is known

    def status(self, followed: Followed) -> str:
        """MLflow's status of a run in the store; empty if it is not there."""
        sent = self.sent.get(followed.run.digest)
        return sent.status if sent else ""

    def sweep(self) -> Iterator[int]:
        """Publish new records, run by run, those with errors last; yields numbers of newly published rounds.

        Errors are stored in `problem`; their runs are tried again next time.
        """
        self.problem, in_a_row = None, 0
        if (client := self._answers()) is None:
            return
        left = [followed for followed in self.runs if self.status(followed) != "FINISHED"]
        for followed in sorted(left, key=lambda followed: self.failures[followed.run.digest]):
            try:
                yield self._publish(client, followed)
                in_a_row = 0
            except Exception as error:  # the store away, locked, half up: a follower waits and tries again
                self.asked = False
                self.failures[followed.run.digest] += 1
                self.problem = trouble(self.uri, error, followed.run.directory)
                in_a_row += 1
                if in_a_row == UNTRUSTED:
                    return

    def describe(self) -> dict[str, dict[str, str]]:
        """Write views and note of every page that has runs; returns the addresses of its views, by page.

        Does nothing if the store does not answer.
        """
        if self.client is None or (client := self._answers()) is None:
            return {}
        try:
            there = [followed for followed in self.runs if followed.run.digest in self.sent]
            return described(self.workspace, there, client, self.uri)
        except Exception as error:
            self.problem = self.problem or trouble(self.uri, error)
            return {}

    def _answers(self) -> MlflowClient | None:
        """A client of the store if it answers, after reading the state of its runs (`sent`)."""
        if not self.asked:
            try:
                self.client = client_of(self.uri)
                self._ask(self.client)
                self.asked = True
            except Exception as error:
                self.client = None
                self.problem = self.problem or trouble(self.uri, error)
        return self.client

    def _ask(self, client: MlflowClient) -> None:
        """Read the state of these runs from the store, and delete duplicates.

        Duplicates exist because a server that hung may have created a run after all, and because a restored
        experiment has its deleted runs again.
        """
        view, found = ViewType.ACTIVE_ONLY, defaultdict(list)
        for page in {followed.page for followed in self.runs}:
            known = client.get_experiment_by_name(page)
            if known is not None and known.lifecycle_stage == "deleted":
                client.restore_experiment(known.experiment_id)
        pages = every(lambda token: client.search_experiments(view, AT_ONCE, page_token=token))
        self.pages = {page.name: page.experiment_id for page in pages}
        datasets = {followed.run.dataset for followed in self.runs}
        ids = [page for name, page in self.pages.items() if name.partition("/")[0] in datasets]
        search = lambda token: client.search_runs(ids, "", view, AT_ONCE, page_token=token)  # noqa: E731
        for run in every(search) if ids else ():
            found[run.data.tags.get("digest", ""), run.data.tags.get("code", "")].append(run)
        self.sent = {}
        for followed in self.runs:
            digest = followed.run.digest
            there = found[digest, self._code(followed)] or [  # begun before the method's file was edited
                run for run in found[digest, followed.run.code] if run.info.status != "FINISHED"
            ]
            there.sort(key=lambda run: (-len(run.data.metrics), run.info.run_id))
            for double in there[1:]:
                if not double.data.metrics or double.info.experiment_id == there[0].info.experiment_id:
                    client.delete_run(double.info.run_id)
            if there:
                info, data = there[0].info, there[0].data
                rounds, failed = int(data.tags.get("rounds", -1)), "failure" in data.tags
                sent = Sent(info.run_id, info.status, rounds, {*data.params}, failed)
                self.sent[digest] = sent

    def _publish(self, client: MlflowClient, followed: Followed) -> int:
        """Send new records of a run, which is created if missing; returns the number of added rounds."""
        directory = self.workspace.run_at(followed.run.directory)
        if not directory.path.is_dir():
            return 0
        sent = self.sent.get(followed.run.digest)
        before = sent.rounds if sent else -1
        status, outcome = _state(directory)
        records = _read(directory, "metrics", before, whole=status == "FINISHED")
        if records is None and (status != "FAILED" if sent is None else status == sent.status):
            return 0
        if sent is None:
            start = None if records is None else round(1000 * pc.min(records["time"]).as_py())
            tags = {**followed.tags, "code": self._code(followed)}
            with suppress(KeyError, OSError):  # a user without a name, as in containers
                tags["mlflow.user"] = directory.path.owner()
            if (page := followed.page) not in self.pages:
                files = (self.workspace.root.resolve() / "mlruns" / page).as_uri()
                place = None if self.uri.startswith("http") else files  # a server has its own place
                self.pages[page] = client.create_experiment(page, place)
            created = client.create_run(self.pages[page], start, tags, followed.name)
            sent = self.sent[followed.run.digest] = Sent(created.info.run_id)
        self._send(client, followed, sent, status, outcome, records)
        self.failures.pop(followed.run.digest, None)
        return max(0, sent.rounds) - max(0, before)

    def _code(self, followed: Followed) -> str:
        """The fingerprint of the method that trained a run, or will; of all code in earlier versions.

        A run that was trained again by another method file is another run in the store.
        """
        summary = self.workspace.run_at(followed.run.directory).summary() or {}
        return str(summary.get("method_code", summary.get("code", followed.run.code)))

    def _send(
        self, client: MlflowClient, followed: Followed, sent: Sent, status: str, outcome: dict[str, Any],
        records: pa.Table | None,
    ) -> None:  # fmt: skip
        """Continue the run in the store: parameters, points, tags; at its end inputs, files and status."""
        directory, whole = self.workspace.run_at(followed.run.directory), status == "FINISHED"
        spec = json.loads(directory.spec.read_text() if directory.spec.is_file() else followed.run.spec)
        params = {key: value for key, value in followed.params(spec).items() if key not in sent.params}
        new_points, tags, end = [], {}, None
        if records is not None:
            new = records.filter(pc.greater(records["round"], sent.rounds))
            statistics = _read(directory, "statistics", sent.rounds, whole=whole) if self.metrics else None
            new_points = points(new, statistics, self.metrics, partition=spec["partition"])
            end = round(1000 * pc.max(records["time"]).as_py())
            if whole:
                new_points += final_points(outcome, records)
                tags = {**_made_by(outcome), "code": self._code(followed)}
        if status == "FAILED":
            tags = {"failure": f"{outcome['kind']}: {outcome['text']}"[:1000]}
        elif sent.failed:
            client.delete_tag(sent.run_id, "failure")
        sent.failed = status == "FAILED"
        client.log_batch(
            sent.run_id,
            [Metric(point.name, point.value, point.time, point.round) for point in new_points],
            [Param(key, value) for key, value in params.items()],
            [RunTag(key, value) for key, value in tags.items()],
        )
        sent.params |= params.keys()
        if records is not None:  # after its points, which may be sent in several requests
            sent.rounds = max(sent.rounds, pc.max(records["round"]).as_py())
            client.set_tag(sent.run_id, "rounds", str(sent.rounds))
        if whole:
            client.log_inputs(sent.run_id, _inputs(followed, outcome))
            if directory.spec.is_file():
                client.log_artifact(sent.run_id, str(directory.spec))
            else:  # a pulled run
                client.log_text(sent.run_id, json.dumps(spec, indent=1, sort_keys=True), directory.spec.name)
        if whole or status != sent.status:
            if status == "RUNNING":
                client.update_run(sent.run_id, status)
            else:
                client.set_terminated(sent.run_id, status, end)
        sent.status = status


def _made_by(summary: dict[str, Any]) -> dict[str, str]:
    """Tags of a finished run: device, batch norm, and the commit as MLflow knows it."""
    machine = summary["environment"]
    tags = {"device": str(machine["device"]), "bn": summary["policy"]["bn"]}
    if commit := machine.get("commit"):
        name, _, changed = commit.partition(" ")
        tags |= {"mlflow.source.git.commit": name, "mlflow.source.git.dirty": str(bool(changed))}
    return tags


def _inputs(followed: Followed, summary: dict[str, Any]) -> list[DatasetInput]:
    """The images and the partition that a finished run read, by their hashes."""
    run, hashes = followed.run, summary["hashes"]
    read = {"prepared": ("images", run.prepared), "partition": ("partition", run.partition)}
    return [
        DatasetInput(
            Dataset(f"{run.dataset} {what}", hashes[key][:36], "local", json.dumps({"uri": path})),
            [InputTag("mlflow.data.context", what)],
        )
        for key, (what, path) in read.items()
        if key in hashes
    ]


def _state(run: RunDirectory) -> tuple[str, dict[str, Any]]:
    """MLflow's status of a run, with its summary or failure. Reads the lock only if an attempt failed."""
    if (summary := run.summary()) is not None:
        return "FINISHED", summary
    if (failure := run.failure()) is not None and run.state() is State.FAILED:
        return "FAILED", failure
    return "RUNNING", {}


def _read(run: RunDirectory, kind: str, after: int, *, whole: bool) -> pa.Table | None:
    """Records ("metrics") or statistics of a run: all, or those of segments that end after round `after`."""
    columns = COLUMNS if kind == "metrics" else None
    if whole and kind == "metrics":
        return timed_records(run, columns)
    if whole:
        return read_parquet(run.statistics) if run.statistics.is_file() else None
    folder = run.segments if kind == "metrics" else run.statistics_segments
    paths = [path for path in sorted(folder.glob("*.parquet")) if int(path.stem.partition("-")[2]) > after]
    if not paths:
        return None
    table = pa.concat_tables([read_parquet(path) for path in paths])
    return timed(reproducible(table), timings(table), 0.0).select(columns) if columns else table
