"""What MLflow shows at the head of a page, and the addresses of its views."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from sqlalchemy.exc import OperationalError

from fedshift.planning.planfile import Cell, Run
from fedshift.tracking.pages import _view, followed
from tests.tracking.conftest import Trained, finish, names, track, until
from tests.verbs import done, fedshift


@pytest.mark.slow
def test_the_note_of_a_workflow_links_its_views_and_its_finished_tables(
    trained: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tables are made after the last run: the follower waits for the workflow's end. Publishing again changes nothing."""
    from mlflow import MlflowClient

    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    project = trained.copy(tmp_path)
    runs = [run for run in trained.runs if run.method != "fedprox"]
    workflow = subprocess.Popen(["sleep", "600"])
    try:
        follower = track(project, "", "seeds", "--follow", "--beside", str(workflow.pid), "--every", "0.2")
        database = project / "mlflow.db"
        until(lambda: database.exists() and _finished(database) == len(runs), 240)
        done(fedshift(project, "collect", "seeds"))
        done(fedshift(project, "table", "seeds"))
    finally:
        workflow.kill()
        workflow.wait()
    said = finish(follower)
    client = MlflowClient(f"sqlite:///{database}")
    page = client.get_experiment_by_name("digits/seeds")
    assert page is not None
    note = page.tags["mlflow.note.content"]
    view = f"#/experiments/{page.experiment_id}/runs?viewStateShareKey=plain&"
    assert f"[plain]({view}" in note.splitlines()[0]
    assert f"http://127.0.0.1:5000/{view}" in said and "make ui" in said
    assert "**Seeds**" in note and "fedshift run seeds" in note
    (tables,) = client.search_runs([page.experiment_id], "tags.tables = 'seeds'")
    assert (
        f"[tables](#/experiments/{page.experiment_id}/runs/{tables.info.run_id}/artifacts/table.md)" in note
    )
    saved = client.download_artifacts(tables.info.run_id, "table.md", str(tmp_path / "saved"))
    assert Path(saved).read_text() == (project / "results/tables/seeds/table.md").read_text()
    done(fedshift(project, "track", "seeds"))
    assert client.get_experiment(page.experiment_id).tags == page.tags
    assert len(client.search_runs([page.experiment_id])) == len(runs) + 1


def _finished(database: Path) -> int:
    try:
        return sum(status == "FINISHED" for _, status, _ in names(database))
    except OperationalError:
        return 0


def test_a_view_compares_all_methods_on_a_domain_by_accuracy() -> None:
    """Of more variants than MLflow draws by itself (ten), and with a quote in the domain's name."""
    view = _view("o'clock", [f"m{k}" for k in range(12)])
    assert view["searchFilter"] == 'tags.target = "o\'clock"'
    assert view["runsHiddenMode"] == "SHOW_ALL"
    assert view["orderByKey"] == "metrics.`acc/ood`" and not view["orderByAsc"]
    assert view["selectedColumns"] == ["metrics.`acc/ood`", "metrics.`acc/id`"]
    assert view["groupBy"]["groupByKeys"] == [{"mode": "param", "groupByData": "variant"}]


def test_seeds_of_a_variant_share_its_colour_and_variants_do_not() -> None:
    runs, cells = [], []
    for k, (method, seed) in enumerate((m, s) for m in ("fedavg", "fedbn", "ditto") for s in (0, 1)):
        fields = {**dict.fromkeys(Run._fields, 0), "digest": str(k), "dataset": "pacs", "method": method}
        runs.append(Run(**{**fields, "seed": seed}))
        cells.append(Cell("e", method, json.dumps({"seed": seed}), str(k)))
    colours = [planned.tags["mlflow.runColor"] for planned in followed(runs, cells)]
    assert colours[::2] == colours[1::2]
    assert len({*colours}) == 3
