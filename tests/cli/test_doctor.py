"""Doctor: says what is there and what is not, and its exit code agrees."""

from __future__ import annotations

import json
import shutil
import socket
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

from fedshift import doctor
from fedshift.cli import main
from fedshift.planning.cluster import parsed_minutes
from fedshift.planning.plan import plan
from fedshift.planning.request import Request
from fedshift.storage.workspace import Workspace

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The checkout's declarations without data, DVC or results, on a machine without Slurm."""
    for name in ("experiments", "reference", "slurm"):
        shutil.copytree(REPOSITORY / name, tmp_path / name)
    (tmp_path / "benchmarks").mkdir()
    shutil.copy(REPOSITORY / "benchmarks" / "costs.csv", tmp_path / "benchmarks")
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
    assert "needed by hfedf/table2" in pacs.text
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
    assert (found.state, found.text) == ("ok", "verified, 9,991 files")
    raw.with_name("original.verified.json").write_text(json.dumps({"hash": "other"}))
    (found,) = doctor.datasets(Workspace(project), Request(("hfedf/table2",)))
    assert found.state == "absent"


def test_profile_is_held_against_the_cluster(project: Path) -> None:
    asked, workspace = Request(("demo",), device="cuda"), Workspace(project)

    def states() -> list[str]:
        return [finding.state for finding in doctor.slurm(workspace, asked)]

    assert states() == ["absent"]
    (project / "slurm" / "cluster.yaml").write_text("slurm_partition: short\n")
    command(project, "sinfo", "long*|up|infinite|64000+|(null)")
    command(project, "scontrol", "AccountingStorageType = accounting_storage/none")
    (wrong,) = doctor.slurm(workspace, asked)
    assert "'short' is not on this cluster" in wrong.text and "one of: long" in wrong.cure
    command(project, "sinfo", "short|up|infinite|64000|(null)")
    assert states() == ["ok", "wrong"]  # no GPU there
    command(project, "sinfo", "short|up|infinite|64000|gpu:2")
    assert states() == ["ok"]
    (project / "slurm" / "cluster.yaml").write_text("slurm_partition: short\ngres: shard:1\n")
    *_, wrong = doctor.slurm(workspace, asked)
    assert "has no 'shard'" in wrong.text and "leave `gres` out" in wrong.cure
    command(project, "sinfo", "short|up|infinite|64000|gpu:2(S:0-1),shard:8(S:0-1)")
    assert states() == ["ok"]
    command(project, "scontrol", "AccountingStorageEnforce = associations,limits")
    *_, account = doctor.slurm(workspace, asked)
    assert "names none" in account.text


def test_jobs_as_planned_are_held_against_the_partition(project: Path) -> None:
    asked, workspace = Request(("demo",)), Workspace(project)
    plan(workspace, asked)
    command(project, "scontrol", "")
    for limits, told in (
        ("up|1-00:00:00|64000|(null)", []),
        ("up|5:00|64000|(null)", ["ends jobs after 5 minutes"]),
        ("up|infinite|1000|(null)", ["has nodes of 1000 MB"]),
        ("down|infinite|64000|(null)", ["is down"]),
    ):
        command(project, "sinfo", f"only*|{limits}")
        _, *wrong = doctor.slurm(workspace, asked)
        assert len(wrong) == len(told)
        assert all(part in finding.text for part, finding in zip(told, wrong, strict=True))


@pytest.mark.parametrize(("given", "minutes"), [("infinite", None), ("30:00", 30), ("2-01:30:00", 2970)])
def test_time_limits_as_slurm_writes_them(given: str, minutes: int | None) -> None:
    assert parsed_minutes(given) == minutes


def test_server_that_does_not_answer_is_wrong(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://127.0.0.1:{port}")
    (found,) = doctor.mlflow(Workspace(project), Request(("demo",)))
    assert found.state == "wrong"


def test_disk_is_held_against_what_is_to_be_done(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace, asked = Workspace(project), Request(("demo",))
    (before,) = doctor.disk(workspace, asked)
    assert "fedshift plan" in before.text
    plan(workspace, asked)
    (planned,) = doctor.disk(workspace, asked)
    assert (planned.state, "84 runs to do need up to 0.2 GB" in planned.text) == ("ok", True)
    monkeypatch.setattr(doctor, "SPARE_GB", 1e9)
    assert [finding.state for finding in doctor.disk(workspace, asked)] == ["wrong"]


@pytest.mark.parametrize(
    "asks",
    ["spec: {local: {precision: tf32}}", "axes: {local.precision: [fp32, tf32], target: all, seed: [0]}"],
)
def test_a_tf32_that_is_not_here_is_wrong_for_the_experiments_that_need_it(project: Path, asks: str) -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    key = asks.partition(":")[0]
    demo = (project / "experiments" / "demo.yaml").read_text().splitlines()
    kept = "\n".join(line for line in demo if not line.startswith(key))
    (project / "experiments" / "rounded.yaml").write_text(f"{kept}\n{asks}\n")
    (wrong,) = doctor.precision(Workspace(project), Request(("demo", "rounded")))
    assert wrong.state == "wrong" and wrong.text.endswith("needed by rounded")
    assert "local.precision to fp32" in wrong.cure


def test_exit_code_says_whether_something_is_wrong(project: Path) -> None:
    needs_images = CliRunner().invoke(main, ["--root", str(project), "doctor", "hfedf/table2"])
    assert needs_images.exit_code == 1
    assert "!!  data pacs" in needs_images.output
    assert "-> fedshift fetch pacs" in needs_images.output
    demo = CliRunner().invoke(main, ["--root", str(project), "doctor", "demo"])
    wrong = [line for line in demo.output.splitlines() if line.startswith("!!")]
    assert demo.exit_code == (1 if wrong else 0)
    assert "comes with its library" in demo.output
