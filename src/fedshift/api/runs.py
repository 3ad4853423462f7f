"""Runs: `fedshift.run` trains one, `fedshift.load_run` opens a finished one.

`fedshift.evaluate` computes an evaluation of a run; `fedshift.results` has the results of an experiment.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import pandas as pd

from fedshift.analysis.collect import collect
from fedshift.analysis.collected import timed_records
from fedshift.analysis.quantities import PLACE, by_round, left_out, selected
from fedshift.api._arguments import Root, plain, release, say, settings_of
from fedshift.api._arguments import workspace as workspace_of
from fedshift.common.errors import FedshiftError, check_known
from fedshift.common.parquet import read_parquet
from fedshift.deploy.export import export
from fedshift.deploy.predictor import Images, Of, Predictions, Predictor, predictor
from fedshift.experiments.column import measured_on_clients
from fedshift.experiments.declare import PROTOCOL, spec_of
from fedshift.experiments.protocols import Rule
from fedshift.experiments.task import Task, read_result
from fedshift.federation.records import own_split
from fedshift.spec import RunSpec, parse
from fedshift.storage.rundir import RunDirectory, State
from fedshift.storage.workspace import Workspace, found
from fedshift.training import evaluate as evaluation_of
from fedshift.training import run as training
from fedshift.training.device import device as device_of
from fedshift.training.device import require
from fedshift.training.provide import provide, trained_on
from fedshift.training.weights import round_of

Select = Literal["last", "best_first", "best_later"]


@dataclass(frozen=True)
class Run:
    """A finished run. docs/columns.md describes the columns of its tables.

    `workspace`: the project.
    `directory`: the run's directory.
    """

    workspace: Workspace
    directory: RunDirectory

    @property
    def path(self) -> Path:
        """The run's folder."""
        return self.directory.path

    @property
    def summary(self) -> dict[str, Any]:
        """The run's settings and costs: `digest`, `classes`, `clients`, costs, `environment` and others."""
        return self.directory.summary() or {}

    @property
    def digest(self) -> str:
        """The run id: 16 hexadecimal digits that identify the specification."""
        return self.directory.name.partition("-")[0]

    @property
    def spec(self) -> RunSpec:
        """The resolved specification."""
        return parse(self.summary["spec"], str(self.directory.summary_file))

    @property
    def metrics(self) -> pd.DataFrame:
        """Every recorded value, by round, model, client and split."""
        return pd.DataFrame(timed_records(self.directory).to_pandas())

    @property
    def statistics(self) -> pd.DataFrame:
        """Counts by class and confidence of every evaluated set, from which other metrics are computed."""
        return pd.DataFrame(read_parquet(self.directory.statistics).to_pandas())

    @property
    def diagnostics(self) -> pd.DataFrame:
        """The diagnostics that the method recorded. Raises FedshiftError if it records none."""
        if not self.directory.diagnostics.is_file():
            what = f"{self.summary['method']} records no diagnostics"
            raise FedshiftError(self.path, what, "See: fedshift list methods.")
        return pd.DataFrame(read_parquet(self.directory.diagnostics).to_pandas())

    def round(self, select: Select = "last") -> int:
        """The last round, or that of the best validation accuracy (of equal ones, the first or the later)."""
        return round_of(self.summary, select)

    @property
    def tested(self) -> tuple[int, int]:
        """The number of clients that `id` is a mean over, and the number of all clients."""
        clients = self.summary["clients"]
        split = own_split(self.summary["spec"]["partition"], sum(client["test"] for client in clients))
        return sum(client[split] > 0 for client in clients), len(clients)

    def accuracy(self, select: Select = "last") -> dict[str, float]:
        """Accuracies in percent after a round, `id` and `ood`, each if it is defined.

        `id` is the mean over the clients with test images (`tested`), by the models that tables show. `ood`
        is the accuracy on the held-out domain.
        """
        found = by_round(timed_records(self.directory), self.summary["spec"]["partition"])
        after = found[found.index == self.round(select)]
        values = {where: 100 * float(after[where].iloc[0]) for where in ("id", "ood")}
        return {where: value for where, value in values.items() if value == value}

    def model(self, of: Of = "unseen", *, select: Select = "last", member: int | None = None) -> Predictor:
        """The trained network with its preprocessing, from the run's directory alone.

        It is an `nn.Module` in eval mode: uint8 RGB images [B, 3, px, px] to probabilities [B, C].

        `of`: "unseen", the model that the method gives to a domain without clients; or a client, by number or
            domain.
        `select`: weights of which round: "last", "best_first" or "best_later".
        `member`: one of several models for a held-out domain. By default their probabilities are averaged.

        Raises FedshiftError for a run without weights and for an unknown client.

        >>> run = fedshift.run("fedavg", "digits", "ink", rounds=2)
        >>> run.model()(torch.zeros(5, 3, 32, 32, dtype=torch.uint8)).shape
        torch.Size([5, 10])
        """
        return predictor(self.directory, of, select=select, member=member)

    def predict(self, images: Images, of: Of = "unseen", *, select: Select = "last") -> Predictions:
        """`labels` and `probabilities` of new images of any size, which are resized as in training.

        `images`: a path or PIL image, or many: paths, PIL images, an array [n, h, w, 3] or a tensor [n, 3, h,
            w]. Values are uint8, or floats in [0, 1].
        `of`, `select`: as in `model`.

        >>> run = fedshift.run("fedavg", "digits", "ink", rounds=2)
        >>> found = run.predict(fedshift.load_data("digits").images[:3])
        >>> len(found.labels), found.probabilities.shape
        (3, (3, 10))
        """
        return self.model(of, select=select).predict(images)

    def export(
        self, folder: str | os.PathLike[str], formats: Sequence[str] = ("torchscript",), of: Of = "unseen",
        *, select: Select = "last",
    ) -> list[Path]:  # fmt: skip
        """Write the model and its card into `folder`; return the paths.

        `formats`: "torchscript", "onnx" or "safetensors".

        Raises FedshiftError for ONNX without its packages (`pip install "fedshift[onnx]"`).
        """
        return export(self.directory, self.model(of, select=select), Path(folder), formats)


def run(
    method: str,
    data: str | os.PathLike[str] = "digits",
    target: str | None = None,
    *,
    seed: int = 0,
    rounds: int | None = None,
    protocol: str = PROTOCOL,
    settings: Mapping[str, Any] | None = None,
    root: Root = None,
    device: str = "auto",
    threads: int = 1,
    say: Callable[[str], None] = say,
) -> Run:
    """Train `method` on `data` to the end and return the run.

    A run that was stopped resumes from its checkpoint; a finished one is only opened. Images are fetched,
    decoded and partitioned first if necessary. The run is the same, with the same id and folder, as in an
    experiment with these settings.

    `data`: as in `fedshift.load_data`.
    `target`: the held-out domain; None: no domain is held out.
    `rounds`: by default those of the protocol.
    `protocol`: a file in reference/protocols/ with settings, including those for the method.
    `settings`: dotted key -> value, applied last: {"local.lr": 0.1, "method.params.mu": 0.01}.
    `device`: "cpu", "cuda", or "auto", which is a GPU if there is one.
    `threads`: of the CPU.

    Raises FedshiftError for errors that the user can fix.

    >>> run = fedshift.run("fedavg", "digits", "ink", rounds=2)
    >>> sorted(run.accuracy())
    ['id', 'ood']
    """
    workspace, where = workspace_of(root), release(data, "data")
    declared = {"method": method, "target": target, "seed": seed, "rounds": rounds, "protocol": protocol}
    spec = spec_of(workspace, data=where, settings=settings_of(settings), **plain(declared))
    if not isinstance(cores := plain(threads), int) or cores < 1:
        raise FedshiftError("threads", f"cannot be {cores}", "Give a whole number from 1.")
    directory = workspace.run(spec.run_name)
    if directory.outcome() is not State.FINISHED:
        provide(workspace, spec, where.tree, say)
        training.train(workspace, spec, training.Machine(device_of(str(device)), cores), show=True)
    else:
        trained_on(workspace, spec, directory)
    return Run(workspace, directory)


def load_run(name: str | os.PathLike[str], *, root: Root = None) -> Run:
    """The finished run in the folder `name`, or the one whose id begins with `name`.

    Raises FedshiftError if there is none, or if there are several.

    >>> trained = fedshift.run("fedavg", "digits", "ink", rounds=2)
    >>> fedshift.load_run(trained.digest).path == trained.path
    True
    """
    name = str(plain(name))
    workspace, folder = workspace_of(root), RunDirectory(Path(name))
    if folder.outcome() is State.FINISHED:
        return Run(workspace, folder)
    return Run(workspace, finished(workspace, name))


def finished(workspace: Workspace, digest: str) -> RunDirectory:
    """The only finished run whose name begins with `digest`.

    Raises FedshiftError if there is none, or if there are several.
    """
    named = {found(run.path.with_name(run.digest)) for run in workspace.runs() if run.name.startswith(digest)}
    matching = sorted((run for run in named if run.outcome() is State.FINISHED), key=lambda run: run.path)
    if not matching:
        what = f"no finished run is called '{digest}', nor an experiment"
        hint = "See: fedshift list runs, fedshift list experiments."
        if digest and any(path.name.startswith(digest) for path in workspace.archive.rglob("*.zip")):
            what = f"run '{digest}' is archived without weights, and not trained here"
            hint = f"To train it again: fedshift reproduce {digest}"
        raise FedshiftError(workspace.results, what, hint)
    if len(matching) > 1:
        names = ", ".join(run.name for run in matching)
        raise FedshiftError(
            workspace.results, f"'{digest}' begins several finished runs", f"One of: {names}."
        )
    return matching[0]


def evaluate(
    run: Run,
    evaluation: str,
    *,
    select: Select = "best_first",
    full_domain: bool = False,
    device: str = "auto",
    **params: Any,
) -> pd.DataFrame:
    """Compute an evaluation (`fedshift list evaluations`) of a finished run from its saved weights.

    An existing result is only read. Returns the evaluation's table, whose columns are described in
    docs/columns.md.

    `select`: weights of which round: "last", "best_first" or "best_later".
    `full_domain`: use all images of the held-out domain, not only those that the run tests.
    `device`: "cpu", "cuda", or "auto", which is a GPU if there is one.
    `params`: parameters of the evaluation.

    Raises FedshiftError for an unknown evaluation or parameter, for a run without weights, and for a GPU that
    does not work.

    >>> run = fedshift.run("fedavg", "digits", "ink", rounds=2)
    >>> features = fedshift.evaluate(run, "features", images=50)
    >>> set(features["domain"]) == {"plain", "ink", "texture", "outline"}
    True
    >>> int(features.groupby("client").size().max())
    50
    """
    task = Task(evaluation, plain(params), select, "full_domain" if full_domain else "tested")
    require(where := device_of(str(device)))
    (path,) = evaluation_of.evaluate(run.workspace, run.path, [task], where)
    return pd.DataFrame(read_result(path)[0].to_pandas())


def results(
    experiment: str,
    metrics: str | Sequence[str] = ("id", "ood"),
    *,
    select: Rule | None = None,
    root: Root = None,
) -> pd.DataFrame:
    """One row per finished (or archived) run of an experiment: `method`, its axes, `round`, and `metrics`.

    Existing results are gathered; nothing is trained. Fractions are in percent. If the mean over clients
    leaves some out in a run, the column `clients` has "2 of 3"; otherwise there is no such column.

    `metrics`: as in tables ("ece.ood"); see `fedshift list metrics`.
    `select`: the rule that chooses the round, by default the protocol's.

    Raises FedshiftError for an unknown experiment, metric or rule.

    >>> frame = fedshift.results("demo")
    >>> list(frame.columns)
    ['method', 'target', 'seed', 'round', 'id', 'ood']
    """
    asked = [metrics] if isinstance(metrics, str) else plain(metrics)
    if select is not None:
        check_known("fedshift.results", "select", select, get_args(Rule))
    collected = collect(workspace_of(root), str(plain(experiment)))
    chosen = selected(collected, select, asked)
    frame = chosen[[*collected.keys, "round", *asked]]
    on_clients = dict.fromkeys(filter(None, map(measured_on_clients, asked)))
    texts = [left_out(collected, metric, select)[chosen[PLACE]] for metric in on_clients]
    few = [", ".join(dict.fromkeys(filter(None, of_run))) for of_run in zip(*texts, strict=True)]
    return frame.assign(clients=few) if any(few) else frame
