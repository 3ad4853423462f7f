"""The report as a browser shows it: it asks for nothing, says nothing, and draws what the records hold.

FEDSHIFT_SCREENSHOTS=FOLDER keeps the picture.
"""

import json
import os
import re
from html import unescape
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fedshift.analysis import report
from fedshift.common.parquet import write_columns
from fedshift.data.plots import plot_partition
from fedshift.spec import RunSpec
from tests.analysis.browser import Opened, browse
from tests.analysis.conftest import Project, accuracy, changed

pytestmark = pytest.mark.chromium
METHODS, TARGETS, SEEDS = ("fedavg", "local"), ("plain", "ink"), (0, 1)


@pytest.fixture
def page(project: Project) -> Path:
    project.declare(
        methods=dict.fromkeys(METHODS),
        axes={"target": [*TARGETS], "seed": [*SEEDS]},
        tables={"main": {"columns": ["target"]}},
        figures=["curves", {"sweep": {"x": "target", "metrics": ["ood"]}}],
    )
    for method in METHODS:
        for target in TARGETS:
            for seed in SEEDS:
                rounds = {0: accuracy((0.1, 0.1), 0.1), 1: accuracy((0.5, 0.7), 0.25 + seed / 2)}
                project.add(method, rounds, target=target, seed=seed)
    for run in project.runs:
        path = project.workspace.partition(RunSpec.model_validate_json(run.spec).partition_name)
        held = [{"client": k, "class": f"digit {k}", "label": k, "split": "train"} for k in (0, 0, 1)]
        digest = write_columns(path, pd.DataFrame(held), {})
        plot_partition(pd.DataFrame(held).assign(domain="plain"), path.with_suffix(".png"))
        changed(project.workspace.run_at(run.directory).path, hashes={"partition": digest})
    project.collect()
    return report.write(project.workspace, ["toy"], "toy")


@pytest.fixture
def opened(page: Path, tmp_path: Path) -> Opened:
    made = browse(page, tmp_path / "browser")
    if folder := os.environ.get("FEDSHIFT_SCREENSHOTS"):
        made.picture.save(Path(folder) / "report.png")
    return made


def test_nothing_is_asked_for_nothing_goes_wrong_and_every_chart_has_words(opened: Opened) -> None:
    assert opened.requests == []
    assert opened.console == []
    words = re.findall(r'<img src="data:[^"]*" alt="([^"]*)"', opened.dom)
    assert len(words) == 5
    assert "lines: fedavg; local" in words[0] and "x: held-out domain" in words[1]


NARROW = """<script>
document.documentElement.style.width = "390px";
window.addEventListener("load", () => {
  const box = (e) => e.getBoundingClientRect();
  const beyond = [...document.querySelectorAll("body *")].filter((e) => !e.closest(".wide") && box(e).right > 390).map((e) => e.outerHTML.slice(0, 80));
  const drawn = [...document.querySelectorAll(".chart img")].map((e) => e.complete && e.naturalWidth > 200);
  document.body.dataset.narrow = JSON.stringify({beyond, drawn});
});
</script>"""


def test_every_chart_is_shown_and_nothing_leaves_a_narrow_screen(page: Path, tmp_path: Path) -> None:
    """At 390 px: what is wider scrolls within the page."""
    text = page.read_text().replace("style-src", "script-src 'unsafe-inline'; style-src", 1)
    end = text.rindex("</body>")
    narrow = tmp_path / "narrow.html"
    narrow.write_text(text[:end] + NARROW + text[end:])
    dom = browse(narrow, tmp_path / "browser").dom
    match = re.search(r'data-narrow="([^"]*)"', dom)
    assert match is not None
    assert json.loads(unescape(match[1])) == {"beyond": [], "drawn": [True] * 5}


def test_texts_are_light_in_the_dark(page: Path, tmp_path: Path) -> None:
    """Most of the picture is dark; texts and lines are light."""
    light, dark = (
        np.asarray(browse(page, tmp_path / name, dark=name == "dark").picture.convert("L"))
        for name in ("light", "dark")
    )
    assert np.median(light) > 250 and np.median(dark) < 30
    written = (light < 100).mean()
    assert written > 0.005
    assert (dark > 180).mean() > written / 2
