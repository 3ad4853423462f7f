"""What a machine with a wrong clock has written is used like the rest."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.workflow.checkout import Checkout, tiny


@pytest.mark.slow
def test_what_is_dated_tomorrow_stops_no_job(tmp_path: Path) -> None:
    """Snakemake takes what is made of an input of tomorrow for broken, and deletes it each time."""
    made = Checkout.made(tmp_path, {"demo": tiny("Demo", "fedavg")}, "experiments: [demo]\n")
    made.run("images")
    tomorrow = time.time() + 86_400
    (images,) = (path for path in (made.root / "data" / "prepared" / "digits").iterdir() if path.is_dir())
    for path in (images, *images.iterdir()):
        os.utime(path, (tomorrow, tomorrow))
    made.run("metrics")
    stamps = [*(made.root / "results" / "packs").rglob("*.json")]
    collected = [*(made.root / "results" / "metrics").iterdir()]
    for path in (*stamps, made.root / "experiments" / "demo.yaml"):
        os.utime(path, (tomorrow, tomorrow))
    for path in collected:
        path.unlink()
    made.run("metrics")
    for path in collected:
        os.utime(path, (tomorrow, tomorrow))
    assert "rule train:" not in made.run("all")
    assert (made.root / "results" / "tables" / "demo" / "table.csv").is_file()
