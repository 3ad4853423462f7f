"""The report as a browser shows it: it asks for nothing, says nothing, and draws what the records hold.

FEDSHIFT_SCREENSHOTS=FOLDER keeps the picture.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fedshift.analysis import report
from fedshift.spec import RunSpec
from tests.analysis.browser import Opened, browse
from tests.analysis.conftest import Project, accuracy

pytestmark = pytest.mark.chromium
METHODS, TARGETS, SEEDS = ("fedavg", "local"), ("plain", "ink"), (0, 1)


@pytest.fixture
def page(project: Project) -> Path:
    project.declare(
        methods=dict.fromkeys(METHODS),
        axes={"target": [*TARGETS], "seed": [*SEEDS]},
        tables={"main": {"columns": ["target"]}},
    )
    for method in METHODS:
        for target in TARGETS:
            for seed in SEEDS:
                rounds = {0: accuracy((0.1, 0.1), 0.1), 1: accuracy((0.5, 0.7), 0.25 + seed / 2)}
                project.add(method, rounds, target=target, seed=seed)
    for run in project.runs:
        path = project.workspace.partition(RunSpec.model_validate_json(run.spec))
        path.parent.mkdir(parents=True, exist_ok=True)
        held = [{"client": k, "class": f"digit {k}", "label": k, "split": "train"} for k in (0, 0, 1)]
        pq.write_table(pa.Table.from_pylist(held), path)
    project.collect()
    return report.write(project.workspace, ["toy"], "toy")


@pytest.fixture
def opened(page: Path, tmp_path: Path) -> Opened:
    made = browse(page, tmp_path / "browser")
    if folder := os.environ.get("FEDSHIFT_SCREENSHOTS"):
        made.picture.save(Path(folder) / "report.png")
    return made


def test_nothing_is_asked_for_and_nothing_goes_wrong(opened: Opened) -> None:
    assert opened.requests == []
    assert opened.console == []
    assert 'data-title="Share chart' not in opened.dom  # it would send the chart to a server


def test_a_page_that_asks_is_found_out(tmp_path: Path) -> None:
    """The two checks above can fail: a picture from a server, an error in a script."""
    page = tmp_path / "asks.html"
    page.write_text("<img src='http://127.0.0.1:9/a.png'><script>throw Error('no')</script>")
    opened = browse(page, tmp_path / "browser", 400)
    assert "http://127.0.0.1:9/a.png" in opened.requests
    assert any("Error: no" in line for line in opened.console)


def test_every_curve_bar_and_dot_is_drawn(opened: Opened) -> None:
    panels = len(TARGETS) + 1  # each target, and their average
    lines = re.findall(r'<path class="js-line"[^>]*? d="M[^"]*L[^"]*"', opened.dom)
    assert len(lines) == len(METHODS) * panels * (
        1 + 2
    )  # id: a line; ood, which varies over seeds: a line and a band's edge
    bars = re.findall(r'<g class="point"><path d="M[\d.]+,([\d.]+)V([\d.]+)H', opened.dom)
    assert len([1 for foot, top in bars if foot != top]) == len(TARGETS) * 2  # two holders, one class each
    dots = re.findall(r'<path class="point"[^>]*? d="M[^"]*"', opened.dom)
    assert len(dots) == 2 * len(METHODS)  # against bytes and against seconds
    assert len(opened.picture.getcolors(1 << 24) or []) > 300
