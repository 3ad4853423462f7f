"""Which device and GPU a job takes, and what a run notes of its machine."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from fedshift.archive.machine import MachineClass
from fedshift.common.errors import FedshiftError
from fedshift.training import device as noting
from fedshift.training.device import PRETEND, device, require
from fedshift.training.pack import VISIBLE


def test_auto_is_the_cpu_and_a_gpu_that_was_asked_for_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(PRETEND, raising=False)
    require(device("auto"))
    require(device("cpu"))
    assert device("auto").type == "cpu" and device("cuda").type == "cuda"
    with pytest.raises(FedshiftError, match=r"no working CUDA on") as error:
        require(device("cuda"))
    assert error.value.retry


X86 = """processor	: 0
vendor_id	: GenuineIntel
cpu family	: 6
model		: 207
model name	: Intel(R) Xeon(R) Processor
flags		: fpu avx512f

processor	: 1
vendor_id	: GenuineIntel
model		: 8
"""
ARM = """processor	: 0
BogoMIPS	: 243.75
CPU implementer	: 0x41
CPU architecture: 8
CPU part	: 0xd40
"""


@pytest.mark.parametrize(("text", "model"), [(X86, "GenuineIntel 6 207"), (ARM, "0x41 0xd40"), (None, "")])
def test_a_cpu_is_noted_by_maker_family_and_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None, model: str
) -> None:
    if text is not None:
        (tmp_path / "cpuinfo").write_text(text)
    monkeypatch.setattr(noting, "CPUINFO", tmp_path / "cpuinfo")
    noted = noting.environment(torch.device("cpu"), 1, "")
    assert noted["cpu_model"] == MachineClass.of(noted).model == model
    assert (f"({model})" in str(MachineClass.of(noted))) is bool(model)


JOB = """\
import os, sys
from pathlib import Path
from fedshift.training.pack import claim
claim("cuda", int(sys.argv[1]), Path(sys.argv[2]))
child = "import os; print(os.environ['CUDA_VISIBLE_DEVICES'], flush=True)"
import subprocess
subprocess.run([sys.executable, "-c", child])  # a pack's runs share its GPU
sys.stdin.read()
"""


def job(folder: Path, count: int = 3) -> subprocess.Popen[str]:
    environment = {key: value for key, value in os.environ.items() if key != VISIBLE}
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
