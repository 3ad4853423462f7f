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


def test_pairs_prints_what_a_page_has_from_the_archive(tmp_path: Path) -> None:
    """docs/hfedf.md, fp32 against bf16: its command, on what a clone has."""
    for name in ("experiments", "reference", "results-archive"):
        shutil.copytree(ROOT / name, tmp_path / name)
    shutil.copy(ROOT / "params.yaml", tmp_path)
    page = (ROOT / "docs" / "hfedf.md").read_text()
    (line,) = re.findall(r"^python (benchmarks/pairs.py hfedf/precision_photo .*)$", page, re.MULTILINE)
    command = [sys.executable, *line.split(), "--root", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    rows = re.findall(r"^\| hfedf \| (.*) \| 3 \|$", done.stdout, re.MULTILINE)
    assert len(rows) == 4, done.stdout + done.stderr
    words = {
        "| id |": "| in-distribution |",
        "| ood |": "| out-of-distribution |",
        "| last |": "| last round |",
    }
    for row in rows:
        shown = f"| {row} |"
        for code, word in words.items():
            shown = shown.replace(code, word)
        assert shown.replace("| last_third", "| `last_third`") in page


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
