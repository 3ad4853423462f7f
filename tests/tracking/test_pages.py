"""The pages of docs/share-results.md, drawn by a headless browser against a real server. FEDSHIFT_SCREENSHOTS=docs/images keeps the pictures."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from PIL import Image

from tests.analysis.browser import chromium
from tests.tracking.conftest import Trained, complete, finish, track
from tests.tracking.server import Server
from tests.verbs import done, fedshift

pytestmark = pytest.mark.chromium
WIDTH, SHOWN = 1800, 1345  # pixels; to the right of SHOWN is MLflow's assistant
TABLE, CHART = 560, 1100
PICTURES = ("methods",)  # those that the page shows
CHARTS = (">acc/id<", ">acc/ood<")  # MLflow draws them by name
LINK = "viewStateShareKey=plain"
MUS = [f"fedprox, mu={mu}" for mu in (0.01, 0.1, 1.0)]


@pytest.fixture(scope="module")
def browser() -> str:
    return chromium()


def drawn(browser: str, url: str, folder: Path, picture: Path, height: int, words: Sequence[str]) -> str:
    """Draw a page until it shows `words`, five times at most: on a busy machine a chart may come after the picture. Returns its text."""
    for _ in range(5):
        text = draw(browser, url, folder, picture, height)
        if all(word in text for word in words):
            break
    return text


def draw(browser: str, url: str, folder: Path, picture: Path, height: int) -> str:
    """Draw a page; returns its text. Chromium runs below `folder` and asks nobody but the server."""
    options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    options += [f"--window-size={WIDTH},{height}", f"--user-data-dir={folder / 'chromium'}"]
    options += ["--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1", "--virtual-time-budget=20000"]
    options += [
        "--blink-settings=primaryHoverType=2,availableHoverTypes=2,primaryPointerType=4,availablePointerTypes=4"
    ]
    command = [browser, *options, f"--screenshot={picture}", "--dump-dom", url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True, cwd=folder)
    image = Image.open(picture).convert("RGB").crop((0, 0, SHOWN, height))
    assert len(image.getcolors(1 << 24) or []) > 300, f"{picture} is empty"
    image.quantize(256).save(picture, optimize=True)
    assert picture.stat().st_size < 200_000
    return done.stdout


def test_pages(browser: str, trained: Trained, server: Server, tmp_path: Path) -> None:
    """The experiment's page, whose note links both views in its first line; the addresses that `track` prints."""
    from mlflow import MlflowClient

    project = trained.copy(tmp_path / "project")
    for verb in ("collect", "table"):
        done(fedshift(project, verb, "seeds"))
    said = finish(track(project, server.uri, "seeds", "ablation"))
    complete(server.database, project, trained.runs)
    page = MlflowClient(server.uri).get_experiment_by_name("digits/seeds").experiment_id
    lines = [line for line in said.splitlines() if "viewState" in line]
    printed = {line.partition(",")[0]: line.rpartition(" ")[2] for line in lines}
    link = printed["digits/seeds"].removeprefix(server.uri + "/")
    own = f"{server.uri}/#/experiments/{page}/runs?workflowType=machine_learning"
    pages = {
        "experiment": (own, TABLE, [LINK]),
        "methods": (printed["digits/seeds"], CHART, CHARTS),
        "ablation": (printed["digits/ablation"], CHART, CHARTS),
    }
    kept = Path(os.environ.get("FEDSHIFT_SCREENSHOTS", tmp_path)).absolute()
    text = {}
    for name, (url, height, words) in pages.items():
        folder = kept if name in PICTURES else tmp_path
        text[name] = drawn(browser, url, tmp_path, folder / f"mlflow-{name}.png", height, words)
    assert link.replace("&", "&amp;") in text["experiment"]
    for name, variants in {"methods": ["fedavg", "fedbn", "hfedf"], "ablation": MUS}.items():
        assert [chart for chart in CHARTS if chart not in text[name]] == []
        for variant in variants:
            assert f"{variant} (acc/ood)" in text[name], (name, variant)
        assert ">cost/" not in text[name][: text[name].index(CHARTS[-1])]
