"""Pages: what MLflow shows at the head of an experiment, and the views in which its methods are compared.

A view is a tag of the experiment, `mlflow.sharedViewState.<name>`, as MLflow's own button "Share" writes it.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from fedshift.experiments.load import load
from fedshift.storage.workspace import Workspace
from fedshift.tracking.followed import NOTE, Followed
from fedshift.tracking.points import plain

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Experiment

LOCAL = "http://127.0.0.1:5000"  # where `make ui` serves a store that is a file

FOLDED = 50  # groups of a view: more do not fit into a tag of an old MLflow
VIEW = "mlflow.sharedViewState."
TABLES = ("table.md", "table.csv")


def described(
    workspace: Workspace, runs: Sequence[Followed], client: MlflowClient, uri: str
) -> dict[str, dict[str, str]]:
    """Write views, tables and note of every page in the store that has some of these runs; the addresses of
    its views.
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
        views = {target: _link(page, target) for target in variants}
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
    """Links, of which MLflow shows the first line at once; the experiment's title, and how to make its
    tables, in Markdown.
    """
    links = "Methods on " + ", ".join(f"[{target}]({link})" for target, link in views.items())
    links += f" · [tables]({tables})" if tables else ""
    again = f"To make its tables: `fedshift run {experiment}`"
    return "\n\n".join([links, f"**{load(workspace, experiment).title}**", again])


def _link(page: Experiment, target: str) -> str:
    view = f"viewStateShareKey={quote(plain(target))}&compareRunsMode=CHART&workflowType=machine_learning"
    return f"#/experiments/{page.experiment_id}/runs?{view}"


def _view(target: str, variants: list[str]) -> dict[str, Any]:
    """Methods on one held-out domain: means over seeds, none hidden, the best first, with accuracies as
    columns; the seeds of a variant are folded.
    """
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
    """The link to the experiment's tables, files of a run of their own; empty where there are none."""
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
