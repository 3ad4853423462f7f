"""A job computes on what it asked for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from tests.workflow.checkout import Checkout, tiny

pytestmark = [pytest.mark.workflow, pytest.mark.slow]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_a_job_that_asked_for_a_gpu_trains_on_no_cpu(tmp_path: Path) -> None:
    """The rule passed no device on: a node without working CUDA trained on its CPU."""
    there = Checkout.made(tmp_path, {"demo": tiny("Demo", "local")}, "experiments: [demo]\ndevice: cuda\n")
    done = there.snakemake("metrics")
    assert done.returncode == 1, done.stdout
    (path,) = (tmp_path / "results" / "runs").rglob("failure.json")
    failure = json.loads(path.read_text())
    assert "no working CUDA" in failure["text"] and failure["retry"]
    assert not list(tmp_path.rglob("summary.json"))
