"""profiles/pbs, kubernetes and lsf with the real executor plugins, and stand-ins for the schedulers' commands, which run jobs here."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from fedshift.storage.workspace import Workspace
from tests.conftest import ROOT
from tests.workflow.checkout import Checkout, tiny

STANDIN = ROOT / "tests" / "workflow" / "standin"
PROFILES = ROOT / "profiles"


@pytest.mark.workflow
@pytest.mark.slow
@pytest.mark.parametrize("name", ["pbs", "kubernetes", "lsf"])
def test_a_job_that_was_killed_is_submitted_again(name: str, tmp_path: Path) -> None:
    checkout = Checkout.made(tmp_path / "checkout", {"demo": tiny("Demo", "fedavg")}, "experiments: [demo]\n")
    state = tmp_path / "standin"
    done = checkout.snakemake(
        "results/tables/demo/table.csv",
        *("--config", "device=cpu", "--latency-wait", "5", "--max-status-checks-per-second", "10"),
        profile=f"profiles/{name}",
        PATH=f"{STANDIN}{os.pathsep}{os.environ['PATH']}",
        STANDIN=str(state),
        KILLED="2",  # the second job: the training, after the decoding
    )
    assert done.returncode == 0, done.stdout
    asked = [path.read_text() for path in sorted(state.glob("*.asked"))]
    rules = [re.search(r"(?:fedshift-|Snakemake_rule_)([a-z]+)", text)[1] for text in asked]  # type: ignore[index]
    assert rules == ["prepare", "train", "train"]
    jobs = {"pbs": "jobid '3.standin'", "kubernetes": "jobid 'job.batch/3'", "lsf": "LSF jobid 3"}
    assert jobs[name] in done.stdout
    assert Workspace(checkout.root).tables("demo").joinpath("table.csv").is_file()


@pytest.mark.parametrize(
    ("answer", "code", "said"),
    [
        ("    job_state = R", 0, "running"),
        ("    job_state = Q", 0, "running"),
        ("    job_state = F\n    Exit_status = 0", 0, "success"),
        ("    job_state = F\n    Exit_status = 1", 0, "failed"),
        ("    job_state = F\n    Exit_status = -29", 0, "failed"),  # its walltime was over
        ("", 153, "failed"),  # unknown
        ("", 1, "running"),  # the server does not answer
    ],
)
def test_status_of_pbs_in_snakemake_s_words(answer: str, code: int, said: str, tmp_path: Path) -> None:
    program(tmp_path / "qstat", f"cat <<'END'\nJob Id: 7.pbs\n{answer}\nEND\nexit {code}\n")
    assert with_path(tmp_path, "pbs/status", "7.pbs") == f"{said}\n"


@pytest.mark.parametrize(
    ("answer", "code", "said"),
    [
        ("", 0, "running"),
        ("SuccessCriteriaMet Complete", 0, "success"),
        ("FailureTarget Failed", 0, "failed"),
        ('Error from server (NotFound): jobs.batch "x" not found', 1, "failed"),
        ("Unable to connect to the server", 1, "running"),
    ],
)
def test_status_of_kubernetes_in_snakemake_s_words(answer: str, code: int, said: str, tmp_path: Path) -> None:
    program(tmp_path / "kubectl", f"echo '{answer}' >&{1 + code}\nexit {code}\n")
    assert with_path(tmp_path, "kubernetes/status", "job.batch/x") == f"{said}\n"


def test_what_a_job_of_pbs_asks_for(tmp_path: Path) -> None:
    program(tmp_path / "qsub", 'printf "%s\\n" "$@"\n')
    asked = with_path(
        tmp_path, "pbs/submit", "train", "4", "9000", "1505", "1", "-q", "gpu", "job.sh"
    ).splitlines()
    assert "select=1:ncpus=4:mem=9000mb:ngpus=1" in asked
    assert "walltime=25:05:00" in asked
    assert asked[-3:] == ["-q", "gpu", "job.sh"]
    assert "ngpus" not in with_path(tmp_path, "pbs/submit", "train", "1", "500", "5", "0", "job.sh")


def test_what_a_job_of_kubernetes_asks_for(tmp_path: Path) -> None:
    program(tmp_path / "kubectl", "cat\n")

    def manifest(gpus: str) -> dict[str, Any]:
        words = ("train", "4", "9000", "1505", gpus, "registry/fedshift:1", "claim", "job.sh")
        return dict(yaml.safe_load(with_path(tmp_path, "kubernetes/submit", *words, FEDSHIFT_PLAN="plan.db")))

    job = manifest("1")
    pod = job["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert job["spec"]["activeDeadlineSeconds"] == 1505 * 60
    assert container["resources"]["limits"] == {"cpu": "4", "memory": "9000M", "nvidia.com/gpu": "1"}
    assert container["image"] == "registry/fedshift:1" and container["command"] == ["bash", "job.sh"]
    assert {"name": "FEDSHIFT_PLAN", "value": "plan.db"} in container["env"]
    assert container["volumeMounts"] == [{"name": "project", "mountPath": str(tmp_path)}]
    assert pod["volumes"][0]["persistentVolumeClaim"] == {"claimName": "claim"}
    (without,) = manifest("0")["spec"]["template"]["spec"]["containers"]
    assert without["resources"]["requests"] == {"cpu": "4", "memory": "9000M"}


def program(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}")
    path.chmod(0o755)


def with_path(folder: Path, script: str, *words: str, **variables: str) -> str:
    """What a script of a profile writes with the folder's programs before all others, run there."""
    environment = os.environ | {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"} | variables
    command = ["sh", str(PROFILES / script), *words]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=True
    ).stdout
