"""The files around the code agree with one another."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from tests.workflow.checkout import Checkout, tiny

REPOSITORY = Path(__file__).parents[2]


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_constraints_are_exact_versions_and_cover_every_requirement() -> None:
    lines = [
        line for line in (REPOSITORY / "constraints.txt").read_text().splitlines() if not line.startswith("#")
    ]
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.]+", line) for line in lines)
    pinned = {canonical(line.partition("==")[0]) for line in lines}
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    wanted = [
        *project["dependencies"],
        *(line for extra in project["optional-dependencies"].values() for line in extra),
    ]
    names = {canonical(re.match(r"[A-Za-z0-9._-]+", line)[0]) for line in wanted}  # type: ignore[index]
    assert names - pinned == {"fedshift"}


def test_dvc_reads_its_stages() -> None:
    command = [sys.executable, "-m", "dvc", "stage", "list", "--name-only"]
    output = subprocess.run(command, cwd=REPOSITORY, text=True, capture_output=True, check=True).stdout
    assert output.split() == ["plan", "data", "partitions", "train", "tables", "report"]


def test_slurms_commands_can_be_run() -> None:
    """A file beside them that is not executable is passed over, and the real command is called without patience."""
    commands = [*(REPOSITORY / "workflow" / "slurm").iterdir()]
    named = {path.name for path in commands}
    assert named == {"sacct", "sbatch", "scontrol", "sinfo", "squeue", "srun", "sshare"}
    assert [path.name for path in commands if not os.access(path, os.X_OK)] == []


def test_every_profile_bounds_its_jobs_and_keeps_the_scheduler_that_scales() -> None:
    for path in ("profiles/local", "profiles/ci", "slurm"):
        profile = yaml.safe_load((REPOSITORY / path / "config.yaml").read_text())
        assert "cores" in profile or "jobs" in profile
        assert profile["scheduler"] == "greedy"
        assert profile["scheduler-subsample"] == 1000
        assert profile["keep-going"] and profile["rerun-incomplete"]


@pytest.mark.slow
def test_snakemake_lint_finds_nothing(tmp_path: Path) -> None:
    made = Checkout.made(tmp_path, {"demo": tiny("Demo", "fedavg")}, "experiments: [demo]\n")
    command = [sys.executable, "-m", "snakemake", "--lint"]
    done = subprocess.run(command, cwd=made.root, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "    * " not in done.stderr, done.stderr


def test_a_second_signal_does_not_undo_the_first() -> None:
    """A closed terminal tells Snakemake twice, the second time while it ends the jobs for the first."""
    text = (REPOSITORY / "workflow" / "rules" / "process.smk").read_text()
    names: dict[str, Any] = {
        "psutil": SimpleNamespace(),
        "os": os,
        "signal": signal,
        "contextlib": contextlib,
        "STOPPED": [],
    }
    exec(text[text.index("def stop(") : text.index("def heed_signals")], names)

    def children() -> list[Any]:
        names["stop"](signal.SIGHUP, None)
        return []

    names["psutil"].Process = lambda: SimpleNamespace(children=children)
    with pytest.raises(KeyboardInterrupt):
        names["stop"](signal.SIGHUP, None)
