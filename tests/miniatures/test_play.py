"""A miniature through real snakemake to its table, verdicts and scorecard: another for each commit."""

from __future__ import annotations

import os
import subprocess
import time

import pytest

from fedshift.analysis.verdicts.judge import WORDS
from fedshift.experiments.expand import expand
from fedshift.experiments.load import available, load
from fedshift.workspace import Workspace
from tests.miniatures.play import play
from tests.miniatures.world import world
from tests.workflow.checkout import REPOSITORY

pytestmark = [pytest.mark.workflow, pytest.mark.slow, pytest.mark.timeout(1800)]
MOST = 20  # runs: with them it takes about a minute of a processor


def key() -> int:
    """A number of the commit, or MINIATURE of the environment; without git of the second."""
    if "MINIATURE" in os.environ:
        return int(os.environ["MINIATURE"])
    done = subprocess.run(
        ["git", "rev-parse", "--short=8", "HEAD"], cwd=REPOSITORY, capture_output=True, text=True
    )
    return int(done.stdout, 16) if done.returncode == 0 else int(time.time())


def drawn(small: Workspace, number: int) -> str:
    """The first experiment from the one of this number on that is not tuned, trains, and has at most MOST runs."""
    names = available(small)
    for name in names[number % len(names) :] + names:
        experiment = load(small, name)
        if experiment.train and not experiment.tune and len(expand(small, experiment)) <= MOST:
            return name
    raise AssertionError("no experiment has so few runs")


def test_a_miniature_ends_in_table_verdicts_and_scorecard(tmp_path) -> None:
    checkout = world(tmp_path / "project")
    name = drawn(Workspace(checkout.root), key())
    print(f"played: {name}")
    one = play(checkout, name, "results/scorecard.html")
    assert one.new == one.runs > 0
    assert one.filled == one.cells > 0
    assert {*one.verdicts} <= {*WORDS}
    page = (checkout.root / "results/scorecard.md").read_text()
    assert f"`fedshift run {name}`" in page or not one.verdicts
    counts = {
        word: page.count(f"{number:,} are {word}")
        for word, number in one.verdicts.items()
        if word in WORDS[:3]
    }
    assert all(counts.values()), (counts, one.verdicts)
