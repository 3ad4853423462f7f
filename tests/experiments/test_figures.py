"""The figures that an experiment lists: their files, what is refused, and that listing another one trains nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from fedshift.experiments.figures import figures
from fedshift.experiments.load import load
from fedshift.planning import planfile
from fedshift.planning.plan import plan
from fedshift.planning.request import Request
from fedshift.storage.rundir import State
from fedshift.storage.workspace import Workspace
from tests.verbs import fedshift, refused

TINY: dict[str, Any] = {
    "title": "Tiny",
    "protocol": "digits",
    "methods": {"fedavg": None, "fedprox": None},
    "axes": {
        "clip": {"key": "local.clip", "values": [0.0001, 1.0]},
        "target": ["plain", "ink"],
        "seed": [0, 1],
    },
}


def declare(root: Path, **keys: Any) -> None:
    (root / "experiments" / "tiny.yaml").write_text(yaml.safe_dump({**TINY, **keys}, sort_keys=False))


def names(root: Path, **keys: Any) -> list[str]:
    declare(root, **keys)
    return [*figures(load(Workspace(root), "tiny"))]


def test_files_are_named_by_the_figure_and_its_parameters(project: Path) -> None:
    assert names(project) == ["curves"]
    assert names(project, claims={"HF-C04.1": {"metric": "ood"}}) == ["curves", "claims"]
    assert names(project, claims={"HF-C04.1": {"metric": "ood"}}, figures=["curves"]) == ["curves"]
    assert names(project, figures=[]) == []
    listed = [{"sweep": {"x": "clip"}}, {"sweep": {"x": "clip", "metrics": ["ood", "all"]}}, {"curves": None}]
    assert names(project, figures=listed) == ["sweep-clip", "sweep-clip-ood-all", "curves"]


def test_adding_and_changing_a_figure_plans_no_new_run(project: Path) -> None:
    """By the planner itself: the plan is another one, its runs and packs are the same, and what was finished stays so."""
    workspace, request = Workspace(project), Request(("tiny",))
    declare(project)
    first = plan(workspace, request)
    before = planfile.runs(first)
    for run in before:
        directory = project / run.directory
        directory.mkdir(parents=True)
        (directory / "summary.json").write_text("{}")
        (directory / "metrics.parquet").write_bytes(b"PAR1PAR1")
    for listed in (["curves", {"sweep": {"x": "clip"}}], [{"sweep": {"x": "clip", "scale": "log"}}]):
        declare(project, figures=listed)
        path = plan(workspace, request)
        assert path != first
        after = planfile.runs(path)
        assert [(run.digest, run.pack) for run in after] == [(run.digest, run.pack) for run in before]
        assert all(workspace.run_at(run.directory).outcome() is State.FINISHED for run in after)


@pytest.mark.parametrize(
    ("entry", "parts"),
    [
        ("swep", ("figures", "unknown figure 'swep'", "Did you mean 'sweep'?")),
        ({"sweep": {"z": "clip"}}, ("figures.sweep", "unknown key 'z' of sweep", "metrics")),
        ({"sweep": {"x": "clipp"}}, ("figures.sweep.x", "unknown axis 'clipp'", "Did you mean 'clip'?")),
        ("sweep", ("figures.sweep.x", "unknown axis ''", "Valid: clip, seed, target.")),
        ({"sweep": {"x": "clip", "lines": "targt"}}, ("figures.sweep.lines", "Did you mean 'target'?")),
        ({"sweep": {"x": "clip", "metrics": ["odd"]}}, ("figures.sweep.metrics", "Did you mean 'ood'?")),
        ({"sweep": {"x": "clip", "scale": "logg"}}, ("figures.sweep", "'scale' of sweep")),
        ({"sweep": {"x": "clip", "lines": "clip"}}, ("figures.sweep", "uses an axis twice")),
        ({"sweep": {"x": "seed", "scale": "log"}}, ("figures.sweep.scale", "no log scale shows")),
        ({"sweep": {"x": "clip", "lines": "target", "panels": "seed"}}, ("several methods as one line",)),
        ("claims", ("figures.claims", "this one tests none")),
        ({"curves": {}, "sweep": {"x": "clip"}}, ("figures", "and not 2 names")),
        ({"curves": {"smooth": 3}}, ("figures.curves", "unknown key 'smooth' of curves")),
    ],
)
def test_a_figure_that_cannot_be_drawn_is_refused_when_it_is_planned(
    project: Path, entry: Any, parts: tuple[str, ...]
) -> None:
    declare(project, figures=[entry])
    refused(fedshift(project, "plan", "tiny"), "experiments/tiny.yaml", *parts)


def test_the_same_figure_twice_is_refused(project: Path) -> None:
    declare(project, figures=["curves", "curves"])
    refused(fedshift(project, "plan", "tiny"), "lists 'curves' twice")
