"""`fedshift compare` on a tree of the user's own, with real snakemake, to its table."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.data.conftest import plant
from tests.workflow.checkout import REPOSITORY, Checkout, tiny

pytestmark = [pytest.mark.workflow, pytest.mark.slow, pytest.mark.timeout(2400)]


def test_it_ends_with_the_table(tmp_path: Path) -> None:
    tree = plant(tmp_path / "clinics", ("a", "b", "c"), ("ill", "well"), each=20)
    checkout = Checkout.made(tmp_path / "checkout", {"demo": tiny("Demo", "fedavg")}, "experiments: [demo]\n")
    (checkout.root / "experiments" / "unified").mkdir()
    everybody = "experiments/unified/pacs.yaml"
    shutil.copy(REPOSITORY / everybody, checkout.root / everybody)
    command = [sys.executable, "-m", "fedshift", "--root", str(checkout.root), "compare"]
    command += ["--data", f"folder:{tree}", "--methods", "fedavg,fedbn", "--seeds", "0", "--rounds", "1"]
    ran = subprocess.run(
        [*command, "--profile", "profiles/ci"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert ran.returncode == 0, ran.stdout
    table = (checkout.root / "results" / "tables" / "compare" / "clinics" / "table.md").read_text()
    assert table.strip() in ran.stdout and "| fedbn" in table
