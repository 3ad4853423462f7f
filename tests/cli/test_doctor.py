"""Doctor: says what is there and what is not, and its exit code agrees."""

import json
import shutil
from pathlib import Path

import pytest

from fedshift import doctor
from fedshift.planning.cluster import parsed_minutes
from fedshift.planning.plan import plan, specs
from fedshift.planning.request import Request
from fedshift.storage.workspace import Workspace
from tests.conftest import ROOT
from tests.verbs import fedshift


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The checkout's declarations without data, DVC or results, on a machine without Slurm."""
    for name in ("experiments", "reference", "slurm"):
        shutil.copytree(ROOT / name, tmp_path / name)
    (tmp_path / "benchmarks").mkdir()
    shutil.copy(ROOT / "benchmarks" / "costs.csv", tmp_path / "benchmarks")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    return tmp_path


def sinfo(folder: Path, name: str, up: str, limit: str, memory: str, gres: str) -> None:
    """A `sinfo` on the PATH that knows one partition, in the columns that it is asked for."""
    path = folder / "bin" / "sinfo"
    path.parent.mkdir(exist_ok=True)
    lines = {"%P|%a|%G": f"{name}|{up}|{gres}", "%P|%l|%m": f"{name}|{limit}|{memory}"}
    cases = "\n".join(f"'{columns}') echo '{line}';;" for columns, line in lines.items())
    path.write_text(f'#!/bin/sh\ncase "$3" in\n{cases}\nesac\n')
    path.chmod(0o755)


def images(project: Path, name: str) -> list[doctor.Finding]:
    workspace = Workspace(project)
    return [*doctor.datasets(workspace, specs(workspace, Request((name,))))]


def test_images_are_missing_unverified_or_verified(project: Path) -> None:
    (digits,) = images(project, "demo")
    assert digits.state == "ok"
    (pacs,) = images(project, "hfedf/table2")
    assert (pacs.part, pacs.state, pacs.cure) == ("data pacs", "wrong", "fedshift fetch pacs")
    raw = Workspace(project).raw("pacs", "original")
    raw.mkdir(parents=True)
    (found,) = images(project, "hfedf/table2")
    assert (found.state, found.cure) == ("absent", "fedshift verify pacs")
    known = json.loads((project / "reference/datasets/pacs.json").read_text())["hash"]
    for stamp, state in ((known, "ok"), ("other", "absent")):
        raw.with_name("original.verified.json").write_text(json.dumps({"hash": stamp}))
        (found,) = images(project, "hfedf/table2")
        assert found.state == state


def test_profile_is_held_against_the_cluster(project: Path) -> None:
    asked, workspace = Request(("demo",), device="cuda"), Workspace(project)

    def states() -> list[str]:
        return [finding.state for finding in doctor.slurm(workspace, asked)]

    assert states() == ["absent"]
    (project / "slurm" / "cluster.yaml").write_text("slurm_partition: short\n")
    sinfo(project, "long*", "up", "infinite", "64000+", "(null)")
    (wrong,) = doctor.slurm(workspace, asked)
    assert "'short' is not on this cluster" in wrong.text and "one of: long" in wrong.cure
    sinfo(project, "short", "up", "infinite", "64000", "(null)")
    assert states() == ["ok", "wrong"]  # no GPU there
    sinfo(project, "short", "up", "infinite", "64000", "gpu:2")
    assert states() == ["ok"]
    (project / "slurm" / "cluster.yaml").write_text("slurm_partition: short\ngres: shard:1\n")
    *_, wrong = doctor.slurm(workspace, asked)
    assert "has no 'shard'" in wrong.text and "leave `gres` out" in wrong.cure
    sinfo(project, "short", "up", "infinite", "64000", "gpu:2(S:0-1),shard:8(S:0-1)")
    assert states() == ["ok"]


def test_jobs_as_planned_are_held_against_the_partition(project: Path) -> None:
    asked, workspace = Request(("demo",)), Workspace(project)
    plan(workspace, asked)
    for limits, told in (
        ("up|1-00:00:00|64000|(null)", []),
        ("up|5:00|64000|(null)", ["ends jobs after 5 minutes"]),
        ("up|infinite|1000|(null)", ["has nodes of 1000 MB"]),
        ("down|infinite|64000|(null)", ["is down"]),
    ):
        sinfo(project, "only*", *limits.split("|"))
        _, *wrong = doctor.slurm(workspace, asked)
        assert len(wrong) == len(told)
        assert all(part in finding.text for part, finding in zip(told, wrong, strict=True))


@pytest.mark.parametrize(("given", "minutes"), [("infinite", None), ("30:00", 30), ("2-01:30:00", 2970)])
def test_time_limits_as_slurm_writes_them(given: str, minutes: int | None) -> None:
    assert parsed_minutes(given) == minutes


def test_exit_code_says_whether_something_is_wrong(project: Path) -> None:
    needs_images = fedshift(project, "doctor", "hfedf/table2")
    assert needs_images.exit_code == 1
    assert "!!  data pacs" in needs_images.output and "-> fedshift fetch pacs" in needs_images.output
    demo = fedshift(project, "doctor", "demo")
    assert demo.exit_code == any(line.startswith("!!") for line in demo.output.splitlines())
    assert "comes with its library" in demo.output
