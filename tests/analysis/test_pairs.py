"""benchmarks/pairs.py: paired differences that pages quote, of seeds with all their runs."""

import sys

import pytest

from benchmarks import pairs
from tests.analysis.conftest import Project

OOD = {  # on the held-out domains near and far, by seed; None: not trained
    "hfedf": ((0.60, 0.61, 0.64), (0.50, 0.50, 0.50)),
    "fedavg": ((0.50, 0.51, 0.52), (0.20, None, 0.20)),
}


def test_a_seed_that_lacks_a_domain_is_left_out(
    project: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """10 and 30 points are 20, 12 and 30 are 21: the 10 of seed 1, on near alone, are another average."""
    values = {
        (method, target, seed): value
        for method, by_target in OOD.items()
        for target, by_seed in zip(("near", "far"), by_target, strict=True)
        for seed, value in enumerate(by_seed)
    }
    project.trained(values)
    command = ["pairs.py", project.name, "method", "hfedf", "fedavg", "--metrics", "ood"]
    monkeypatch.setattr(sys, "argv", [*command, "--root", str(project.workspace.root)])
    pairs.main()
    assert "|  | last | ood | 56.0 | 35.5 | +20.5 | +14.1 to +26.9 | 2 |" in capsys.readouterr().out
