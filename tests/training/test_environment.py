"""What a run notes of its machine."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from fedshift.archive.machine import MachineClass
from fedshift.training import device as noting

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


def test_of_a_gpu_the_cpu_is_no_class() -> None:
    noted = noting.environment(torch.device("cpu"), 1, "") | {
        "device": "H200",
        "cpu_model": "GenuineIntel 6 207",
    }
    assert MachineClass.of(noted).model == "" and str(MachineClass.of(noted)).startswith("H200, threads: 1")
