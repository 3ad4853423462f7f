"""What MLflow shows at the head of a page, and the addresses of its views."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fedshift.planning.planfile import Cell, Run
from fedshift.tracking.followed import followed
from tests.tracking.conftest import Trained
from tests.verbs import done, fedshift


@pytest.mark.slow
def test_a_page_shows_its_table_and_says_where_runs_are_compared(trained: Trained, tmp_path: Path) -> None:
    from mlflow import MlflowClient

    project = trained.copy(tmp_path)
    before = done(fedshift(project, "track", "seeds"))
    client = MlflowClient(f"sqlite:///{project / 'mlflow.db'}")
    page = client.get_experiment_by_name("digits/seeds")
    assert page is not None
    assert page.tags["mlflow.note.content"].startswith(
        "**Seeds**\n\nNo table yet. To make its tables: `fedshift run seeds`"
    )
    assert f"http://127.0.0.1:5000/#/experiments/{page.experiment_id}/runs?" in before
    assert "tags.target%20%3D%20%27plain%27" in before and "make ui" in before
    done(fedshift(project, "collect", "seeds"))
    done(fedshift(project, "table", "seeds"))
    done(fedshift(project, "track", "seeds"))
    shown = client.get_experiment(page.experiment_id).tags["mlflow.note.content"]
    assert (project / "results/tables/seeds/table.md").read_text() in shown
    run = client.search_runs([page.experiment_id])[0]
    assert "`results/tables/seeds/table.html`" in run.data.tags["mlflow.note.content"]


def test_seeds_of_a_variant_share_its_colour_and_variants_do_not() -> None:
    runs, cells = [], []
    for k, (method, seed) in enumerate((m, s) for m in ("fedavg", "fedbn", "ditto") for s in (0, 1)):
        fields = {**dict.fromkeys(Run._fields, 0), "digest": str(k), "dataset": "pacs", "method": method}
        runs.append(Run(**{**fields, "seed": seed}))  # type: ignore[arg-type]
        cells.append(Cell("e", method, json.dumps({"seed": seed}), str(k)))
    colours = [planned.tags["mlflow.runColor"] for planned in followed(runs, cells)]
    assert colours[::2] == colours[1::2]
    assert len({*colours}) == 3
