"""MLflow: a follower that publishes what runs have written. The only module that imports mlflow.

Runs know nothing of it: they write their records, and the follower reads them. What has arrived, the store
is asked, in one search; nothing else remembers it. Every point carries the time of its record, so sending it
again adds nothing: whatever was cut off is simply sent once more.
"""

from __future__ import annotations

import json
import logging
import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from fedshift.analysis.collection.records import timed_records
from fedshift.common.errors import FedshiftError
from fedshift.common.parquet import read_parquet
from fedshift.federation.records import reproducible, timed, timings
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
    from mlflow.entities import Dataset, DatasetInput, InputTag, Metric, Param, RunTag, ViewType
    from mlflow.store.db.db_types import DATABASE_ENGINES
    from sqlalchemy import create_engine, text
except ImportError:
    raise FedshiftError(
        "fedshift track", "MLflow is not installed", "pip install 'fedshift[mlflow]'"
    ) from None

for name in ("alembic", "mlflow"):  # what goes wrong is told in one line, by `trouble`
    logging.getLogger(name).setLevel(logging.CRITICAL)

UNTRUSTED = 2  # errors in a row after which a pass ends: the server is away rather than one run bad
LOCKED = 15  # seconds that an SQLite file may be locked by another program, or a database be silent
WAITS = {"sqlite": "timeout", "postgresql": "connect_timeout"}  # what drivers call that
AT_ONCE = 100  # runs of one answer: a busy server gives it within MLFLOW_HTTP_REQUEST_TIMEOUT
AGAIN = "Nothing is lost: once that is over, `fedshift track` sends what is missing."
CURES = {  # of what a database says
    "locked": f"Another program writes to it. {AGAIN}",
    "not a database|malformed": "Move it away: `fedshift track` makes a new one and sends every run again.",
    "schema|revision": "It is of another version of MLflow. Copy it, then: mlflow db upgrade {uri}; "
    "or move it away: `fedshift track` makes a new one and sends every run again.",
    "readonly|unable to open|denied": f"Change the rights, or set MLFLOW_TRACKING_URI. {AGAIN}",
    r"\bfull\b|No space": f"Make room on that disk. {AGAIN}",
}


def address(workspace: Workspace) -> str:
    """Where to publish: MLFLOW_TRACKING_URI, else the SQLite file mlflow.db in the project folder."""
    return os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{workspace.root.resolve() / 'mlflow.db'}"


def shown_address(uri: str) -> str:
    """`uri` without its password."""
    return re.sub(r"//[^/@]*@", "//...@", uri)


def trouble(uri: str, error: Exception, run: str = "") -> FedshiftError:
    """What went wrong with a store, and what to do about it: the first sentence of its database or of the
    system where these are the cause.

    run: the directory of the run that was being sent
    """
    causes: list[BaseException] = []
    link: BaseException | None = error
    while link is not None:
        causes.append(link)
        link = link.__cause__ or link.__context__
    database = [cause for each in causes if isinstance(cause := getattr(each, "orig", None), Exception)]
    system: list[Exception] = [cause for cause in causes if isinstance(cause, OSError)]
    said = str((database or system[::-1] or [error])[0]).strip() or type(error).__name__
    what = shown_address(said.splitlines()[0].partition(". ")[0])
    cures = (cure for words, cure in CURES.items() if re.search(words, what, re.IGNORECASE))
    cure = next(cures, AGAIN).format(uri=shown_address(uri))
    return FedshiftError(shown_address(uri), f"{run}: {what}" if run else what, cure, retry=True)


@dataclass
class Sent:
    """What the store has of a run. `rounds`: points up to this round, which its tag `rounds` tells."""

    run_id: str
    status: str = "RUNNING"
    rounds: int = -1
    params: set[str] = field(default_factory=set)
    failed: bool = False  # it has the reason of a failure


@dataclass
class Follower:
    """Publishes runs of `workspace` to the store at `uri`, each point once; `sweep` may be called again at
    any time.
    """

    workspace: Workspace
    runs: list[Followed]
    uri: str
    metrics: tuple[str, ...] = ()  # computed from statistics, and shown besides the recorded metrics
    sent: dict[str, Sent] = field(default_factory=dict)  # by the run's name
    failures: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    problem: FedshiftError | None = None

    def __post_init__(self) -> None:
        self.pages: dict[str, str] = {}
        self.client: MlflowClient | None = None  # of a store that answers
        self.asked = False

    @property
    def open(self) -> list[Followed]:
        """Runs of which something is not yet published; those with errors come last."""
        left = [followed for followed in self.runs if self.status(followed) != "FINISHED"]
        return sorted(left, key=lambda followed: self.failures[followed.run.digest])

    def status(self, followed: Followed) -> str:
        """MLflow's word for how far a run is in the store; empty where it is not there."""
        sent = self.sent.get(followed.run.digest)
        return sent.status if sent else ""

    def sweep(self) -> Iterator[int]:
        """Publish what is new, run by run; yields numbers of newly published rounds. Errors end in `problem`
        and are tried again next time.
        """
        self.problem, in_a_row = None, 0
        if not self._answers():
            return
        for followed in self.open:
            try:
                yield self._publish(followed)
                in_a_row = 0
            except Exception as error:  # the store away, locked, half up: a follower waits and tries again
                self.asked = False
                self.failures[followed.run.digest] += 1
                self.problem = trouble(self.uri, error, followed.run.directory)
                in_a_row += 1
                if in_a_row == UNTRUSTED:
                    return

    def describe(self) -> dict[str, dict[str, str]]:
        """Write views and note of every page that has runs; the addresses of its views, by page. None where
        the store does not answer.
        """
        if self.client is None or not self._answers():
            return {}
        try:
            there = [followed for followed in self.runs if followed.run.digest in self.sent]
            return described(self.workspace, there, self.client, self.uri)
        except Exception as error:
            self.problem = self.problem or trouble(self.uri, error)
            return {}

    def _answers(self) -> bool:
        """Whether the store answers; it is then known what it has (`sent`)."""
        if not self.asked:
            try:
                self.client = _client(self.uri)
                self._ask()
                self.asked = True
            except Exception as error:
                self.client = None
                self.problem = self.problem or trouble(self.uri, error)
        return self.asked

    def _ask(self) -> None:
        """Learn what the store has of these runs. Doubles are deleted: a server that hung may have created a
        run after all, and a restored experiment has its deleted runs again. A run that has no accuracy under
        its present name is sent again.
        """
        assert self.client is not None
        client, view = self.client, ViewType.ACTIVE_ONLY
        datasets = {f.run.dataset for f in self.runs}
        for page in {f.page for f in self.runs}:
            known = client.get_experiment_by_name(page)
            if known is not None and known.lifecycle_stage == "deleted":
                client.restore_experiment(known.experiment_id)
        pages = _every(lambda token: client.search_experiments(view, AT_ONCE, page_token=token))
        self.pages = {page.name: page.experiment_id for page in pages}
        ids = [page for name, page in self.pages.items() if name.partition("/")[0] in datasets]
        found: dict[tuple[str, str], list[Any]] = defaultdict(list)
        if ids:
            for run in _every(lambda token: client.search_runs(ids, "", view, AT_ONCE, page_token=token)):
                found[_identity(run.data.tags)].append(run)
        self.sent = {}
        for followed in self.runs:
            if not (there := found[_identity(self._tags(followed))]):
                continue
            first, *doubles = sorted(there, key=lambda run: (-len(run.data.metrics), run.info.run_id))
            for double in doubles:
                if not double.data.metrics or double.info.experiment_id == first.info.experiment_id:
                    client.delete_run(double.info.run_id)
            named = any(metric.startswith("acc/") for metric in first.data.metrics)
            status = first.info.status if named or first.info.status != "FINISHED" else "RUNNING"
            rounds = int(first.data.tags.get("rounds", -1)) if named else -1
            failed = "failure" in first.data.tags
            self.sent[followed.run.digest] = Sent(
                first.info.run_id, status, rounds, {*first.data.params}, failed
            )

    def _publish(self, followed: Followed) -> int:
        """Send what is new of a run; return how many rounds that added."""
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
            sent = self.sent[followed.run.digest] = self._created(followed, directory, records)
        self._send(followed, sent, status, outcome, records)
        self.failures.pop(followed.run.digest, None)
        return max(0, sent.rounds) - max(0, before)

    def _tags(self, followed: Followed) -> dict[str, str]:
        """The run's tags; `code` is of the method that trained it, or is to (of earlier versions, of all
        code), so that a run which was trained again is another one in the store.
        """
        summary = self.workspace.run_at(followed.run.directory).summary() or {}
        code = summary.get("method_code", summary.get("code", followed.run.code))
        return {**followed.tags, "code": str(code)}

    def _created(self, followed: Followed, directory: RunDirectory, records: pa.Table | None) -> Sent:
        """A new run in the store."""
        assert self.client is not None
        start = None if records is None else round(1000 * pc.min(records["time"]).as_py())
        tags = self._tags(followed)
        with suppress(KeyError, OSError):  # a user without a name, as in containers
            tags["mlflow.user"] = directory.path.owner()
        run = self.client.create_run(self._page(followed.page), start, tags, followed.name)
        return Sent(run.info.run_id)

    def _send(
        self, followed: Followed, sent: Sent, status: str, outcome: dict[str, Any], records: pa.Table | None
    ) -> None:
        """Continue the run in the store: parameters, points, tags; at its end inputs, files, and last its
        status.
        """
        assert self.client is not None
        directory = self.workspace.run_at(followed.run.directory)
        spec = json.loads(directory.spec.read_text() if directory.spec.is_file() else followed.run.spec)
        params = {key: value for key, value in followed.params(spec).items() if key not in sent.params}
        new_points, tags, end = [], {}, None
        if records is not None:
            new = records.filter(pc.greater(records["round"], sent.rounds))
            whole = status == "FINISHED"
            statistics = _read(directory, "statistics", sent.rounds, whole=whole) if self.metrics else None
            partition = json.loads(followed.run.spec)["partition"]
            new_points = points(new, statistics, self.metrics, partition=partition)
            end = round(1000 * pc.max(records["time"]).as_py())
            if whole:
                new_points += final_points(outcome, records)
                tags = _made_by(outcome)
        if status == "FAILED":
            tags = {"failure": f"{outcome['kind']}: {outcome['text']}"[:1000]}
        elif sent.failed:
            self.client.delete_tag(sent.run_id, "failure")
        sent.failed = status == "FAILED"
        self.client.log_batch(
            sent.run_id,
            [Metric(point.name, point.value, point.time, point.round) for point in new_points],
            [Param(key, value) for key, value in params.items()],
            [RunTag(key, value) for key, value in tags.items()],
        )
        sent.params |= params.keys()
        if records is not None:  # after its points, which may be sent in several requests
            sent.rounds = max(sent.rounds, pc.max(records["round"]).as_py())
            self.client.set_tag(sent.run_id, "rounds", str(sent.rounds))
        if status == "FINISHED":
            self.client.log_inputs(sent.run_id, _inputs(followed, outcome))
            self.client.log_artifact(sent.run_id, str(directory.spec))
        if status != sent.status or status == "FINISHED":
            if status == "RUNNING":
                self.client.update_run(sent.run_id, status)
            else:
                self.client.set_terminated(sent.run_id, status, end)
        sent.status = status

    def _page(self, name: str) -> str:
        """The id of an MLflow experiment, created where there is none."""
        assert self.client is not None
        if name not in self.pages:
            files = (self.workspace.root.resolve() / "mlruns" / name).as_uri()
            place = None if self.uri.startswith("http") else files  # a server has a place of its own
            self.pages[name] = self.client.create_experiment(name, place)
        return self.pages[name]


def _client(uri: str) -> MlflowClient:
    """A client of a store that can be written. Raises what its database says where that is locked, damaged
    or away: MLflow itself would try again for minutes.
    """
    kind = uri.partition(":")[0].partition("+")[0]
    if kind not in DATABASE_ENGINES:
        return MlflowClient(uri)
    if kind in WAITS and "?" not in uri:
        uri = f"{uri}?{WAITS[kind]}={LOCKED}"
    if kind == "sqlite":  # no connection outlives its use: it would write on into a file that was removed
        os.environ.setdefault("MLFLOW_SQLALCHEMYSTORE_POOLCLASS", "NullPool")
    engine = create_engine(uri)
    try:
        with engine.connect() as connection:
            connection.execute(text("BEGIN IMMEDIATE" if kind == "sqlite" else "SELECT 1"))
    finally:
        engine.dispose()
    return MlflowClient(uri)


def _every(search: Callable[[str | None], Any]) -> Iterator[Any]:
    """All that a search of MLflow finds, page by page."""
    token = None
    while True:
        found = search(token)
        yield from found
        if not (token := found.token):
            return


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


def _identity(tags: Mapping[str, str]) -> tuple[str, str]:
    """What makes a run of the store one of ours."""
    return tags.get("digest", ""), tags.get("code", "")


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
