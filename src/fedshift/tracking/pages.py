"""Pages: what MLflow shows at the head of an experiment, and where its runs are compared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import quote

from fedshift.experiments.load import load
from fedshift.storage.workspace import Workspace
from fedshift.tracking.followed import NOTE, Followed

if TYPE_CHECKING:
    from mlflow import MlflowClient

LOCAL = "http://127.0.0.1:5000"  # where `make ui` serves a store that is a file

LONGEST = 4500  # characters of a note; MLflow keeps 5,000
LISTED = "workflowType=machine_learning&orderByKey=metrics.%60final%2Food_acc%60&orderByAsc=false"


def note(workspace: Workspace, experiment: str) -> str:
    """The experiment's title, its tables as they lie in results/tables, and how to make them, in Markdown."""
    title = f"**{load(workspace, experiment).title}**"
    again = f"To make its tables: `fedshift run {experiment}`"
    path = workspace.tables(experiment) / "table.md"
    if not path.is_file():
        return "\n\n".join([title, f"No table yet. {again}"])
    table = path.read_text(encoding="utf-8")
    if len(table) > LONGEST:
        table = f"The table is too long for this note: `{path.with_suffix('.html')}`"
    return "\n\n".join([title, table, again])


def addresses(server: str, page_id: str, target: str) -> dict[str, str]:
    """Of all runs, the best held-out accuracy first, and of the charts of one held-out domain."""
    runs = f"{server.rstrip('/')}/#/experiments/{page_id}/runs?{LISTED}"
    search = quote(f"tags.target = '{target}'")
    return {"runs": runs, f"methods on {target}": f"{runs}&compareRunsMode=CHART&searchFilter={search}"}


def described(
    workspace: Workspace, runs: Sequence[Followed], client: MlflowClient, store: str
) -> dict[str, dict[str, str]]:
    """Write the note of every page in the store that has some of these runs; the addresses of its views."""
    server = store if store.startswith("http") else LOCAL
    views: dict[str, dict[str, str]] = {}
    for page, shown in {followed.page: followed for followed in reversed(runs)}.items():
        if (known := client.get_experiment_by_name(page)) is not None:
            client.set_experiment_tag(known.experiment_id, NOTE, note(workspace, shown.experiments[0]))
            views[page] = addresses(server, known.experiment_id, shown.run.target)
    return views
