"""The figures that an experiment lists: their files, what is refused, and that listing another one trains nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from fedshift.experiments.figures import figures
from fedshift.experiments.load import load
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


@pytest.mark.parametrize(
    ("entry", "parts"),
    [
        ("swep", ("figures", "unknown figure 'swep'", "Did you mean 'sweep'?")),
        ({"sweep": {"x": "clipp"}}, ("figures.sweep.x", "unknown axis 'clipp'", "Did you mean 'clip'?")),
        ({"sweep": {"x": "clip", "lines": "clip"}}, ("figures.sweep", "uses an axis twice")),
        ({"sweep": {"x": "seed", "scale": "log"}}, ("figures.sweep.scale", "no log scale shows")),
        ({"sweep": {"x": "clip", "lines": "target", "panels": "seed"}}, ("several methods as one line",)),
        ("claims", ("figures.claims", "this one tests none")),
        ({"curves": {}, "sweep": {"x": "clip"}}, ("figures", "and not 2 names")),
    ],
)
def test_a_figure_that_cannot_be_drawn_is_refused_when_it_is_planned(
    project: Path, entry: Any, parts: tuple[str, ...]
) -> None:
    declare(project, figures=[entry])
    refused(fedshift(project, "plan", "tiny"), "experiments/tiny.yaml", *parts)
