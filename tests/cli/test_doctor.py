"""Doctor: says what is there and what is not, and its exit code agrees."""

from __future__ import annotations

import json
import shutil
import socket
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from fedshift import doctor
from fedshift.cli import main
from fedshift.planfile import Request
from fedshift.workspace import Workspace

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The checkout's declarations without data, DVC or results, on a machine without Slurm."""
    for name in ("experiments", "reference", "slurm"):
        shutil.copytree(REPOSITORY / name, tmp_path / name)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    return tmp_path


def command(folder: Path, name: str, printed: str) -> None:
    """A program on the PATH that prints one text."""
    path = folder / "bin" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{printed}'\n")
    path.chmod(0o755)


def test_missing_images_are_wrong_for_the_experiments_that_need_them(project: Path) -> None:
    (pacs,) = doctor.datasets(Workspace(project), Request(("hfedf/table2",)))
    assert (pacs.part, pacs.state, pacs.cure) == ("data pacs", "wrong", "fedshift fetch pacs")
    assert "needed by hfedf/table2" in pacs.found
    (digits,) = doctor.datasets(Workspace(project), Request(("demo",)))
    assert digits.state == "ok"


def test_unverified_and_verified_images_are_told_apart(project: Path) -> None:
    raw = Workspace(project).raw("pacs", "original")
    raw.mkdir(parents=True)
    (found,) = doctor.datasets(Workspace(project), Request(("hfedf/table2",)))
    assert (found.state, found.cure) == ("absent", "fedshift verify pacs")
    stamp = {"hash": json.loads((project / "reference/datasets/pacs.json").read_text())["hash"]}
    raw.with_name("original.verified.json").write_text(json.dumps(stamp))
    (found,) = doctor.datasets(Workspace(project), Request(("hfedf/table2",)))
    assert (found.state, found.found) == ("ok", "verified, 9,991 files")
    raw.with_name("original.verified.json").write_text(json.dumps({"hash": "other"}))
    (found,) = doctor.datasets(Workspace(project), Request(("hfedf/table2",)))
    assert found.state == "absent"


def test_profile_is_held_against_the_cluster(project: Path) -> None:
    asked = Request(("demo",), device="cuda")
    (absent,) = doctor.slurm(project, asked)
    assert absent.state == "absent"
    (project / "slurm" / "cluster.yaml").write_text("slurm_partition: short\n")
    command(project, "sinfo", "long|up|2|(null)")
    command(project, "scontrol", "AccountingStorageType = accounting_storage/none")
    states = {finding.state: finding for finding in doctor.slurm(project, asked)}
    assert "'short' is not on this cluster" in states["wrong"].found
    assert "long" in states["wrong"].cure
    command(project, "sinfo", "short|up|2|(null)")
    assert [finding.state for finding in doctor.slurm(project, asked)] == ["ok", "wrong"]  # no GPU there
    command(project, "sinfo", "short|up|2|gpu:2")
    assert [finding.state for finding in doctor.slurm(project, asked)] == ["ok"]


def test_server_that_does_not_answer_is_wrong(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://127.0.0.1:{port}")
    assert doctor.mlflow(project).state == "wrong"


def test_precision_is_measured_in_a_second() -> None:
    list(doctor.accelerator(Request(("demo",))))  # imports torch
    began = time.perf_counter()
    found = {finding.part: finding for finding in doctor.accelerator(Request(("demo",)))}
    assert time.perf_counter() - began < 3
    assert found["precision"].found.startswith(("bf16 is", "fp32 is"))


def test_exit_code_says_whether_something_is_wrong(project: Path) -> None:
    needs_images = CliRunner().invoke(main, ["--root", str(project), "doctor", "hfedf/table2"])
    assert needs_images.exit_code == 1
    assert "!!  data pacs" in needs_images.output
    assert "-> fedshift fetch pacs" in needs_images.output
    demo = CliRunner().invoke(main, ["--root", str(project), "doctor", "demo"])
    wrong = [line for line in demo.output.splitlines() if line.startswith("!!")]
    assert demo.exit_code == (1 if wrong else 0)
    assert "comes with its library" in demo.output
