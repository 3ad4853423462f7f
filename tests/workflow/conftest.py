"""A copy of the checkout, small experiments in place of the published ones."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.workflow.checkout import Checkout, tiny

REPOSITORY = Path(__file__).parents[2]
COPIED = ("src", "workflow", "profiles", "slurm", "reference", "benchmarks", "Snakefile")


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """Two experiments, `demo` (fedavg, fedprox) and `other` (fedavg, local), trained with real snakemake."""
    root = tmp_path_factory.mktemp("checkout")
    for name in COPIED:
        source = REPOSITORY / name
        if source.is_dir():
            shutil.copytree(source, root / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        else:
            shutil.copy2(source, root / name)
    (root / "experiments").mkdir()
    (root / "experiments" / "demo.yaml").write_text(tiny("Demo", "fedavg", "fedprox"))
    (root / "experiments" / "other.yaml").write_text(tiny("Other", "fedavg", "local"))
    (root / "params.yaml").write_text("experiments: [demo, other]\npack: 2\n")
    return Checkout(root)
