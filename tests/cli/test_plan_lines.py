"""What `fedshift plan` says below its table of the machine that it was asked on."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from fedshift.federation import precision
from tests.verbs import done, fedshift

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
    output = done(fedshift(project, "plan", "tiny", "--device", device))
    said = [line for line in output.splitlines() if "no instructions" in line]
    slow = device == "cpu" and not instructions
    assert [line.partition(" ")[0] for line in said] == (["2"] if slow else [])


def test_uneven_means_are_named(project: Path) -> None:
    tiny: dict[str, Any] = {
        "title": "Tiny", "protocol": "digits", "methods": {"fedavg": None, "fedprox": None},
        "axes": {"local.epochs": [1, 2], "target": ["plain", "ink"], "seed": [0]},
        "only": {"fedprox": {"local.epochs": [2]}}, "tables": {"summary": {}, "by_epochs": {"columns": ["local.epochs"]}},
    }  # fmt: skip
    (project / "experiments" / "tiny.yaml").write_text(yaml.safe_dump(tiny))
    lines = [line for line in done(fedshift(project, "plan", "tiny")).splitlines() if "mean over" in line]
    assert lines == [
        "tiny, table 'summary': 'fedprox' is a mean over local.epochs 2 of 1, 2; the table marks it."
    ]
