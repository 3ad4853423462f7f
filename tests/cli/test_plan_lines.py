"""What `fedshift plan` says below its table of the machine that it was asked on."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from fedshift.cli import main
from fedshift.federation import precision

TINY = """\
title: Tiny
protocol: digits
spec: {federation: {rounds: 1}}
methods: {fedavg: }
axes: {local.precision: [fp32, bf16], target: [plain], seed: [3, 4]}
"""


@pytest.mark.parametrize(("device", "instructions"), [("cpu", True), ("cpu", False), ("cuda", False)])
def test_runs_in_bf16_on_a_cpu_without_instructions_for_it(
    device: str, instructions: bool, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "experiments" / "tiny.yaml").write_text(TINY)
    monkeypatch.setattr(precision.torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: instructions)
    done = CliRunner().invoke(main, ["--root", str(project), "plan", "tiny", "--device", device])
    assert done.exit_code == 0, done.output
    said = [line for line in done.output.splitlines() if "no instructions" in line]
    slow = device == "cpu" and not instructions
    assert [line.partition(" ")[0] for line in said] == (["2"] if slow else [])
