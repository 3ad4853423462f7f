"""A project folder with two experiments that share a run."""

import shutil
from pathlib import Path

import pytest

from fedshift.common.files import write_bytes
from fedshift.planning.planfile import Run
from fedshift.storage.workspace import Workspace

REFERENCE = Path(__file__).parents[2] / "reference"
ONE = """\
title: One
protocol: digits
spec: {federation: {rounds: 10}, local: {epochs: 2}}
methods: {fedavg: , fedprox: {method: {params: {mu: 0.1}}}}
axes: {target: [plain, ink], seed: [0, 1, 2]}
"""
TWO = """\
title: Two
protocol: digits
spec: {federation: {rounds: 10}, local: {epochs: 2}}
methods: {fedavg: }
axes: {target: [plain], seed: [2, 3]}
"""


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    shutil.copytree(REFERENCE / "protocols", tmp_path / "reference" / "protocols")
    (tmp_path / "experiments" / "paper").mkdir(parents=True)
    (tmp_path / "experiments" / "one.yaml").write_text(ONE)
    (tmp_path / "experiments" / "paper" / "two.yaml").write_text(TWO)
    return Workspace(tmp_path)


def finish(workspace: Workspace, run: Run) -> None:
    directory = workspace.run_at(run.directory)
    write_bytes(directory.metrics, b"PAR1PAR1")
    directory.finish({"digest": run.digest})
