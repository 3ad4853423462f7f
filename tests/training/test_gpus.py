"""Several GPUs in one machine: each job its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fedshift.training import device as gpus

JOB = """\
import os, sys
from pathlib import Path
from fedshift.training.device import claim
claim("cuda", int(sys.argv[1]), Path(sys.argv[2]))
child = "import os; print(os.environ['CUDA_VISIBLE_DEVICES'], flush=True)"
import subprocess
subprocess.run([sys.executable, "-c", child])  # a pack's runs share its GPU
sys.stdin.read()
"""


def job(folder: Path, count: int = 3) -> subprocess.Popen[str]:
    environment = {key: value for key, value in os.environ.items() if key != gpus.VISIBLE}
    command = [sys.executable, "-c", JOB, str(count), str(folder)]
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )


def gpu_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_jobs_at_once_have_a_gpu_each_and_give_it_back(tmp_path: Path) -> None:
    """`--resources gpu=3` put three jobs on GPU 0."""
    jobs = [job(tmp_path) for _ in range(3)]
    held = {gpu_of(process): process for process in jobs}
    assert sorted(held) == ["0", "1", "2"]
    held["1"].kill()
    held["1"].communicate()
    after = job(tmp_path)
    assert gpu_of(after) == "1"
    more = job(tmp_path)
    assert gpu_of(more) in held  # more jobs than GPUs: shared
    for process in (*jobs, after, more):
        process.communicate()


@pytest.mark.parametrize(
    ("device", "count", "visible"), [("cpu", 4, None), ("cuda", 1, None), ("cuda", 4, "3")]
)
def test_where_there_is_nothing_to_choose_nothing_is_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device: str, count: int, visible: str | None
) -> None:
    if visible is None:
        monkeypatch.delenv(gpus.VISIBLE, raising=False)
    else:
        monkeypatch.setenv(gpus.VISIBLE, visible)
    assert gpus.claim(device, count, tmp_path) is None
    assert os.environ.get(gpus.VISIBLE) == visible
    assert not list(tmp_path.iterdir())
