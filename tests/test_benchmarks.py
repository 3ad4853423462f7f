"""Benchmarks are scripts, whose folder is the first in which Python looks for modules."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.conftest import ROOT

GPU_CHECK = [sys.executable, "benchmarks/gpu_check.py"]


def test_none_hides_a_module_of_pythons() -> None:
    names = {path.stem for path in (ROOT / "benchmarks").glob("*.py")}
    assert len(names) > 5 and not names & sys.stdlib_module_names


def test_pairs_prints_the_differences_of_archived_runs(tmp_path: Path) -> None:
    for name in ("experiments", "reference", "results-archive"):
        shutil.copytree(ROOT / name, tmp_path / name)
    shutil.copy(ROOT / "params.yaml", tmp_path)
    options = ["hfedf/precision_photo", "local.precision", "fp32", "bf16", "--rules", "last", "last_third"]
    command = [sys.executable, "benchmarks/pairs.py", *options, "--root", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    rows = re.findall(r"^\| hfedf \| (.*) \| 3 \|$", done.stdout, re.MULTILINE)
    assert sorted(rows) == [
        "last | id | 60.9 | 60.3 | +0.6 | -2.4 to +3.6",
        "last | ood | 50.1 | 50.1 | +0.0 | -6.1 to +6.1",
        "last_third | id | 58.6 | 58.7 | -0.2 | -1.8 to +1.5",
        "last_third | ood | 46.5 | 47.3 | -0.8 | -3.2 to +1.6",
    ], done.stdout + done.stderr


@pytest.mark.slow
def test_the_check_of_a_gpu_plays_on_a_cpu_and_can_fail(tmp_path: Path) -> None:
    out = tmp_path / "report.md"
    options = ["--device", "cpu", "--methods", "fedavg", "fedsr", "--work", "digits"]
    command = [*GPU_CHECK, *options, "--packs", "1", "--out", str(out), "--tolerance", "-1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    report = out.read_text()
    assert "| fedavg | 0.0e+00 | 0.000 |" in report and "Failed: fedavg, fedsr:" in report
    assert "| fedsr | 0.0e+00 | 0.000 (draws there) |" in report
    assert "| digits | fp32 | " in report and "digits_cnn,32,cpu,fp32," in report and "| 1 | " in report


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_without_a_gpu_it_says_so() -> None:
    done = subprocess.run(GPU_CHECK, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1 and "no GPU that torch can use" in done.stderr


def test_a_framework_that_is_not_installed_is_named() -> None:
    command = [sys.executable, "benchmarks/peers/peers.py", "--pfllib", sys.executable]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1 and "--pfllib-checkout" in done.stderr
