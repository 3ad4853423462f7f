"""The pages of the four papers list every experiment of their folder, with as many runs as it has."""

from __future__ import annotations

import re

import pytest

from fedshift.cli._collected import shown_without_training
from fedshift.experiments.expand import expand
from fedshift.experiments.load import available, load
from fedshift.storage.workspace import Workspace
from tests.conftest import ROOT

ROW = re.compile(r"^\| [^|]+ \| (`\w+/\w+`(?:, `\w+/\w+`)*) \| (\d*)[^|]*\|$", re.MULTILINE)
PAPERS = ("fdse", "fedrd", "hfedf", "stablefdg")


def listed(paper: str) -> dict[str, int]:
    """Experiment -> the runs that the page gives it; 0 where nothing is trained."""
    rows = ROW.findall((ROOT / "docs" / f"{paper}.md").read_text())
    return {name: int(runs or 0) for names, runs in rows for name in re.findall(r"`([^`]+)`", names)}


@pytest.mark.parametrize("paper", PAPERS)
def test_every_experiment_is_listed(paper: str) -> None:
    files = {f"{paper}/{path.stem}" for path in (ROOT / "experiments" / paper).glob("*.yaml")}
    assert set(listed(paper)) == files


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for paper in PAPERS for name in listed(paper)])
def test_its_runs_are_counted(name: str) -> None:
    workspace = Workspace(ROOT)
    experiment = load(workspace, name)
    cells = expand(workspace, experiment) if experiment.train else []
    assert len({cell.spec.model_dump_json() for cell in cells}) == listed(name.partition("/")[0])[name]


@pytest.mark.slow
def test_what_a_clones_scorecard_counts_is_kept() -> None:
    """README and docs/results.md count what is kept, `fedshift scorecard` what is archived."""
    workspace = Workspace(ROOT)
    for name in available(workspace):
        experiment = load(workspace, name)
        counted = experiment.claims or any(table.printed for table in experiment.tables.values())
        if counted and shown_without_training(workspace, experiment):
            assert (ROOT / "docs" / "results" / name).is_dir(), f"python docs/generate --keep {name}"
