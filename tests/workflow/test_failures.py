"""What failed is told in the terminal, a job computes on what it asked for, and damaged data are made again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from tests.workflow.checkout import Checkout, tiny

pytestmark = [pytest.mark.workflow, pytest.mark.slow, pytest.mark.timeout(1200)]
FAILS = """\
    require(machine.device)
    if spec.method.name == "local":
        raise {}
"""


def failing(root: Path, error: str) -> Checkout:
    """A project in which every run of `local` fails."""
    made = Checkout.made(root, {"demo": tiny("Demo", "fedavg", "local")}, "experiments: [demo]\n")
    made.edit("src/fedshift/training/run.py", "    require(machine.device)\n", FAILS.format(error))
    return made


def test_a_job_that_finished_no_run_is_named_although_it_succeeded(tmp_path: Path) -> None:
    """The others are collected; the call in which runs failed ends with 1, and later calls say so."""
    there = failing(tmp_path, "ValueError('no such layer')")
    done = there.snakemake("metrics")
    assert done.returncode == 1 and (tmp_path / "results/metrics/demo.parquet").is_file(), done.stdout
    (line,) = [line for line in done.stdout.splitlines() if "finished no run" in line]
    for part in ("local on digits", "plain", "seed 0", "ValueError: no such layer"):
        assert part in line
    assert "1 run failed before" in there.run("metrics")


def test_a_job_whose_run_may_succeed_elsewhere_fails_with_its_reason(tmp_path: Path) -> None:
    """It counted as done, and was never trained again."""
    there = failing(tmp_path, "RuntimeError('CUDA error: uncorrectable ECC error')")
    done = there.snakemake("metrics")
    assert done.returncode == 1
    (line,) = [line for line in done.stdout.splitlines() if "finished no run" in line]
    assert "local on digits" in line and "RuntimeError: CUDA error: uncorrectable ECC error" in line
    there.edit(
        "src/fedshift/training/run.py",
        FAILS.partition("\n")[2].format("RuntimeError('CUDA error: uncorrectable ECC error')"),
        "",
    )
    assert "finished no run" not in there.run("metrics")
    assert len(list(tmp_path.rglob("summary.json"))) == 2


def test_damaged_images_are_made_again_at_the_next_start(tmp_path: Path) -> None:
    """The run failed for good, and its images stayed as they were."""
    there = Checkout.made(tmp_path, {"demo": tiny("Demo", "local")}, "experiments: [demo]\n")
    there.run("images")
    (images,) = (tmp_path / "data" / "prepared").rglob("images.npy")
    content = images.read_bytes()
    images.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    done = there.snakemake("metrics")
    assert done.returncode == 1 and "Damaged: " in done.stdout, done.stdout
    (path,) = (tmp_path / "results" / "runs").rglob("failure.json")
    failure = json.loads(path.read_text())
    assert failure["retry"] and str(images.parent.relative_to(tmp_path)) in failure["text"]
    there.run("metrics")
    assert images.read_bytes() == content
    assert len(list(tmp_path.rglob("summary.json"))) == 1


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
