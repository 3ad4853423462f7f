"""A copy of the checkout, small experiments in place of the published ones."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.once import once
from tests.workflow.checkout import Checkout, tiny

EXPERIMENTS = {"demo": tiny("Demo", "fedavg", "fedprox"), "other": tiny("Other", "fedavg", "local")}
PARAMETERS = "experiments: [demo, other]\npack: 2\n"
FIRST = "first.log"


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """Two experiments, `demo` (fedavg, fedprox) and `other` (fedavg, local), to be trained with real snakemake."""
    return Checkout.made(tmp_path_factory.mktemp("checkout"), EXPERIMENTS, PARAMETERS)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """A copy, the module's own, of such a checkout after its first `all`; what snakemake said is in FIRST."""

    def make(root: Path) -> None:
        output = Checkout.made(root, EXPERIMENTS, PARAMETERS).run("all")
        (root / FIRST).write_text(output)

    copy = tmp_path_factory.mktemp("finished")
    shutil.copytree(once(tmp_path_factory, "all", make), copy, symlinks=True, dirs_exist_ok=True)
    return Checkout(copy)
