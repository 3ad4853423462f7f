"""A miniature through real snakemake to its table, verdicts and scorecard: another for each commit."""

from __future__ import annotations

import csv
import os
import subprocess
import time

import pytest

from fedshift.analysis.verdicts import WORDS
from fedshift.experiments.load import load
from fedshift.storage.workspace import Workspace
from tests.miniatures.campaign import PLAYED
from tests.miniatures.play import play
from tests.miniatures.world import world
from tests.workflow.checkout import REPOSITORY

pytestmark = [pytest.mark.workflow, pytest.mark.slow, pytest.mark.timeout(1800)]
MOST = 60  # seconds of a processor


def key() -> int:
    """A number of the commit, or MINIATURE of the environment; without git of the second."""
    if "MINIATURE" in os.environ:
        return int(os.environ["MINIATURE"])
    done = subprocess.run(
        ["git", "rev-parse", "--short=8", "HEAD"], cwd=REPOSITORY, capture_output=True, text=True
    )
    return int(done.stdout, 16) if done.returncode == 0 else int(time.time())


def drawn(number: int) -> str:
    """One of those that take at most MOST seconds."""
    with PLAYED.open(newline="") as file:
        quick = [row["experiment"] for row in csv.DictReader(file) if int(row["seconds"]) <= MOST]
    return quick[number % len(quick)]


def test_a_miniature_ends_in_table_verdicts_and_scorecard(tmp_path) -> None:
    checkout = world(tmp_path / "project")
    name = drawn(key())
    print(f"played: {name}")
    one = play(checkout, name, "results/scorecard.html")
    assert one.new == one.runs
    declared = load(Workspace(checkout.root), name)
    assert one.filled == one.cells and (one.cells > 0) == bool(declared.tables)
    if declared.figures:
        assert [*(checkout.root / "results" / "figures" / name).glob("*.csv")]
    assert {*one.verdicts} <= {*WORDS}
    page = (checkout.root / "results/scorecard.md").read_text()
    assert f"`fedshift run {name}`" in page or not one.verdicts
    counted = {word: page.count(f"{number} {word}") for word, number in one.verdicts.items()}
    assert all(counted.values()) or "Counted, not trained" in page, (counted, one.verdicts)
