"""Images of the user's own that change between two calls of real snakemake."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from fedshift.storage.workspace import Workspace
from tests.data.conftest import plant
from tests.verbs import done, fedshift
from tests.workflow.checkout import Checkout

pytestmark = [pytest.mark.workflow, pytest.mark.slow]
CLINICS = """\
title: Clinics
protocol: digits
spec:
  data: {dataset: folder, release: clinics}
  local: {epochs: 1}
  federation: {rounds: 1}
methods: {fedavg: , fedprox: }
axes: {target: [a], seed: [0]}
tables: {main: {columns: [target]}}
"""


def test_nothing_is_trained_on_images_that_have_changed(tmp_path: Path) -> None:
    """Not on those that were decoded before, and not beside runs that were trained on those."""
    made = Checkout.made(tmp_path / "checkout", {"clinics": CLINICS}, "experiments: [clinics]\n")
    tree = plant(tmp_path / "clinics", ("a", "b", "c"), ("ill", "well"), each=12)
    done(fedshift(made.root, "fetch", "folder", "--release", "clinics", "--from", str(tree)))
    made.run("images")
    odd = tree / "a" / "ill" / "odd.png"
    odd.write_bytes((tree / "a" / "ill" / "0.png").read_bytes())
    early = made.snakemake("metrics")  # nothing is trained yet
    assert early.returncode != 0 and "has changed since its files were listed: a/ill/odd.png" in early.stdout
    odd.unlink()
    made.run("metrics")
    (decoded,) = (path for path in (made.root / "data/prepared/folder").iterdir() if path.is_dir())
    plant(tree, ("d",), ("ill", "well"), each=2)

    changed = made.snakemake("metrics")
    assert changed.returncode != 0
    assert "has changed since its files were listed: d/ill/0.png and 3 more" in changed.stdout
    done(fedshift(made.root, "verify", "folder", "--release", "clinics", "--write-manifest"))
    assert "was made from another state of folder clinics" in made.snakemake("metrics").stdout
    shutil.rmtree(decoded)
    px = decoded.name.partition("-")[0]
    done(fedshift(made.root, "prepare", "folder", "--release", "clinics", "--px", px))

    trained = made.snakemake("metrics")
    assert trained.returncode != 0
    assert "was trained on other images than" in trained.stdout and "; so was another run" in trained.stdout
    assert "Traceback" not in trained.stdout
    assert "2 of other images" in done(fedshift(made.root, "gc", "--delete"))
    shutil.rmtree(made.root / "data" / "partitions")
    made.run("metrics")
    assert len([*Workspace(made.root).runs()]) == 2
    assert "Nothing is left over." in done(fedshift(made.root, "gc"))
