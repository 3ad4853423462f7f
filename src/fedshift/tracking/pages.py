"""Pages of planned runs in MLflow (docs/share-results.md).

- names: page, run, and the labels by which runs are searched and compared
- notes: the text at the head of an experiment
- views: comparisons of an experiment's methods

A view is a tag of the experiment, `mlflow.sharedViewState.<name>`, as MLflow's own button "Share" writes it.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from fedshift.common.files import dotted
from fedshift.experiments.load import load
from fedshift.planning.planfile import Cell, Run
from fedshift.storage.workspace import Workspace
from fedshift.tracking.points import plain

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Experiment

LOCAL = "http://127.0.0.1:5000"  # where `make ui` serves a store that is a file
NOTE = "mlflow.note.content"  # a tag that MLflow shows as Markdown
# Of variants, in their order on a page: MLflow's own choice is by run, and may give neighbours the same.
COLOURS = ["1f77b4", "ff7f0e", "2ca02c", "d62728", "9467bd", "8c564b", "e377c2", "7f7f7f", "bcbd22", "17becf"]
FOLDED = 50  # groups of a view: more do not fit into a tag of an old MLflow
VIEW = "mlflow.sharedViewState."
CHARTS = "&compareRunsMode=CHART&workflowType=machine_learning"
TABLES = ("table.md", "table.csv")


@dataclass(frozen=True)
class Followed:
    """A planned run, the experiments that use it, and its variant of its method there."""

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
        """The run's name in MLflow's tables and legends."""
        return f"{self.variant} | {self.run.target} | seed {self.run.seed}"

    @property
    def labels(self) -> dict[str, str]:
        """Labels that are both a parameter (to compare by) and a tag (to search by)."""
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
        """Labels, axes, and the run's `spec` (spec.json of its directory) without the keys of axes."""
        labelled = {"seed", "data.target", "data.dataset", "method.name"}
        named = {
            key: str(value)
            for key, value in dotted(spec)
            if key not in labelled and key.rpartition(".")[2] not in self.axes
        }
        return {plain(key): value for key, value in {**named, **self.axes, **self.labels}.items()}


def followed(runs: Iterable[Run], cells: Iterable[Cell]) -> list[Followed]:
    """Runs with their names in experiments; if several use a run, the first experiment's."""
    uses: dict[str, list[Cell]] = defaultdict(list)
    for cell in cells:
        uses[cell.digest].append(cell)
    named, numbers = [], defaultdict[str, dict[str, int]](dict)  # numbers: of variants, by page
    for run in runs:
        if run.digest in uses:
            first = uses[run.digest][0]
            every = {key: str(value) for key, value in json.loads(first.axes).items()}
            axes = {key: value for key, value in every.items() if key not in ("target", "seed")}
            variant = ", ".join([first.label, *(f"{key}={value}" for key, value in axes.items())])
            experiments = dict.fromkeys(cell.experiment for cell in uses[run.digest])
            one = Followed(run, tuple(experiments), variant, axes)
            number = numbers[one.page].setdefault(variant, len(numbers[one.page]))
            named.append(replace(one, colour=f"#{COLOURS[number % 10]}"))
    return named


def described(
    workspace: Workspace, runs: Sequence[Followed], client: MlflowClient, uri: str
) -> dict[str, dict[str, str]]:
    """Write views, tables and note of every page in the store that has some of these runs; returns the
    addresses of its views.
    """
    server = uri.rstrip("/") if uri.startswith("http") else LOCAL
    shown: dict[str, list[Followed]] = defaultdict(list)
    for followed in runs:
        shown[followed.page].append(followed)
    addresses: dict[str, dict[str, str]] = {}
    for name, theirs in shown.items():
        if (page := client.get_experiment_by_name(name)) is None:
            continue
        experiment = theirs[0].experiments[0]
        variants: dict[str, dict[str, None]] = defaultdict(dict)  # by held-out domain, in order
        for followed in theirs:
            variants[followed.run.target][followed.variant] = None
        shared = f"#/experiments/{page.experiment_id}/runs?viewStateShareKey="
        views = {target: f"{shared}{quote(plain(target))}{CHARTS}" for target in variants}
        tags = {
            VIEW + plain(target): json.dumps(_view(target, list(of_target)))
            for target, of_target in variants.items()
        }
        tags[NOTE] = note(workspace, experiment, views, _tables(workspace, experiment, client, page))
        for key, value in tags.items():
            if page.tags.get(key) != value:
                client.set_experiment_tag(page.experiment_id, key, value)
        addresses[name] = {f"methods on {target}": f"{server}/{link}" for target, link in views.items()}
    return addresses


def note(workspace: Workspace, experiment: str, views: dict[str, str], tables: str) -> str:
    """The note of an experiment, in Markdown: links, its title, and how to make its tables.

    MLflow shows the first line, the links, at once.
    """
    links = "Methods on " + ", ".join(f"[{target}]({link})" for target, link in views.items())
    links += f" · [tables]({tables})" if tables else ""
    title = load(workspace, experiment).title
    return f"{links}\n\n**{title}**\n\nTo make its tables: `fedshift run {experiment}`"


def _view(target: str, variants: list[str]) -> dict[str, Any]:
    """View of methods on one held-out domain: means over seeds, which are folded; the best first."""
    mark = '"' if "'" in target else "'"
    where = ["id"] if target == "none" else ["ood", "id"]
    return {
        "searchFilter": f"tags.target = {mark}{target}{mark}",
        "orderByKey": f"metrics.`acc/{where[0]}`",
        "orderByAsc": False,
        "selectedColumns": [f"metrics.`acc/{name}`" for name in where],
        "runsHiddenMode": "SHOW_ALL",
        "groupBy": {
            "aggregateFunction": "average",
            "groupByKeys": [{"mode": "param", "groupByData": "variant"}],
        },
        "groupsExpanded": {f"param.variant.{variant}": False for variant in variants[:FOLDED]},
    }


def _tables(workspace: Workspace, experiment: str, client: MlflowClient, page: Experiment) -> str:
    """The link to the experiment's tables, which are files of a separate run; empty if there are none."""
    paths = [path for name in TABLES if (path := workspace.tables(experiment) / name).is_file()]
    if not paths:
        return ""
    found = client.search_runs([page.experiment_id], f"tags.tables = '{experiment}'")
    if found:
        run = found[0]
    else:
        run = client.create_run(page.experiment_id, None, {"tables": experiment}, f"tables of {experiment}")
        client.set_terminated(run.info.run_id)
    for path in paths:
        client.log_artifact(run.info.run_id, str(path))
    return f"#/experiments/{page.experiment_id}/runs/{run.info.run_id}/artifacts/{paths[0].name}"
