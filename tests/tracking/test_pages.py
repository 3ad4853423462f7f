"""The pages of docs/tracking.md, drawn by a headless browser against a real server. FEDSHIFT_SCREENSHOTS=FOLDER keeps the pictures."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from urllib.parse import quote

import pytest
from PIL import Image

from tests.tracking.conftest import Server, Trained, finish, track

WIDTH, HEIGHT, SHOWN = 1800, 2700, 1345  # to the right of SHOWN is MLflow's assistant


@pytest.fixture(scope="module")
def browser() -> str:
    """Chromium; without it tests are skipped, or fail under FEDSHIFT_REQUIRE_CHROMIUM=1."""
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        if os.environ.get("FEDSHIFT_REQUIRE_CHROMIUM") == "1":
            pytest.fail("chromium is not on PATH, and FEDSHIFT_REQUIRE_CHROMIUM=1")
        pytest.skip("chromium is not on PATH")
    return path


def open_page(browser: str, url: str, folder: Path, *what: str) -> str:
    """What Chromium prints of a page. It runs below `folder` and asks nobody but the server."""
    options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    options += [f"--window-size={WIDTH},{HEIGHT}", f"--user-data-dir={folder / 'chromium'}"]
    options += ["--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1"]
    options += [
        "--blink-settings=primaryHoverType=2,availableHoverTypes=2,primaryPointerType=4,availablePointerTypes=4"
    ]
    command = [browser, *options, "--virtual-time-budget=20000", *what, url]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True, cwd=folder).stdout


def test_pages(browser: str, trained: Trained, server: Server, tmp_path: Path) -> None:
    from mlflow import MlflowClient

    finish(track(trained.copy(tmp_path / "project"), server.uri, "seeds", "ablation"))
    client = MlflowClient(server.uri)
    seeds, ablation = (
        client.get_experiment_by_name(f"digits/{name}").experiment_id for name in ("seeds", "ablation")
    )

    def compared(page: str, query: str) -> str:
        found = [run.info.run_id for run in client.search_runs([page], query)]
        return f"compare-runs?runs={quote(json.dumps(found))}&experiments={quote(json.dumps([page]))}"

    def charts(page: str, query: str) -> str:
        return f"experiments/{page}/runs?searchFilter={quote(query)}&compareRunsMode=CHART"

    pages = {
        "runs": f"experiments/{seeds}/runs",
        "seeds": charts(seeds, "tags.method = 'fedavg'"),
        "methods": charts(seeds, "tags.target = 'plain'"),
        "ablation": compared(ablation, "tags.method = 'fedprox'"),
    }
    folder = Path(os.environ.get("FEDSHIFT_SCREENSHOTS", tmp_path))
    for name, page in pages.items():
        picture = folder / f"mlflow-{name}.png"
        open_page(browser, f"{server.uri}/#/{page}", tmp_path, f"--screenshot={picture}")
        image = Image.open(picture).convert("RGB").crop((0, 0, SHOWN, HEIGHT if "CHART" in page else 950))
        assert len(image.getcolors(1 << 24) or []) > 300, f"{picture} is empty"
        image.quantize(256).save(picture, optimize=True)
    text = open_page(browser, f"{server.uri}/#/{pages['runs']}", tmp_path, "--dump-dom")
    for run in trained.runs:
        assert run.method == "fedprox" or f"{run.method} | plain | seed {run.seed}" in text
