"""The controller goes away while jobs are submitted, and while they begin."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from tests.faults.processes import of_folder, until
from tests.slurm.cluster import Cluster
from tests.slurm.results import finished
from tests.slurm.test_slurm import HASTE, WAITING
from tests.workflow.checkout import REPOSITORY, Checkout

pytestmark = pytest.mark.slurm
AWAY = 12.0  # seconds


def back(cluster: Cluster) -> None:
    cluster.call("slurmctld")  # without -c: it remembers its jobs
    cluster.wait(lambda: "UP" in cluster.call("scontrol", "ping", check=False))


def waiting(root: Path) -> set[int]:
    """Processes that ask for the partitions, and submit a job."""
    scripts = tuple(f"/bin/sh {root}/workflow/slurm/{name} " for name in ("sbatch", "sinfo"))
    return {pid for pid, command in of_folder(root).items() if command.startswith(scripts)}


def test_jobs_are_submitted_once_the_controller_is_back(cluster: Cluster, tmp_path: Path) -> None:
    """All four attempts of every job were gone within 70 seconds, and the last one asked for 8.5 GB."""
    there = Checkout.made(tmp_path, {"demo": WAITING}, "experiments: [demo]\n")
    there.run("images", "partitions")
    cluster.stop_daemon("slurmctld")
    job = there.start("metrics", *HASTE, "--retries", "0", profile="slurm", **cluster.environment)
    assert until(lambda: waiting(there.root), 300)
    began = waiting(there.root)
    time.sleep(AWAY)
    assert began & waiting(there.root)  # it still waits, and did not give up
    back(cluster)
    output, _ = job.communicate(timeout=500)
    assert job.returncode == 0, output
    assert len(finished(there.root)) == 3


def test_what_sbatch_refuses_for_another_reason_it_refuses_at_once(cluster: Cluster) -> None:
    sbatch = REPOSITORY / "workflow" / "slurm" / "sbatch"
    began = time.monotonic()
    command = [sbatch, "--partition=nowhere", "--wrap=true"]
    environment = os.environ | cluster.environment
    refused = subprocess.run(command, env=environment, text=True, capture_output=True, check=False)
    assert refused.returncode == 1 and "invalid partition" in refused.stderr
    assert time.monotonic() - began < 30


def test_patience_ends(cluster: Cluster, tmp_path: Path) -> None:
    """A controller that stays away, as sbatch tells it."""
    real = tmp_path / "sbatch"
    real.write_text(
        "#!/bin/sh\necho 'sbatch: error: Unable to contact slurm controller (connect failure)' >&2\nexit 1\n"
    )
    real.chmod(0o755)
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}", "FEDSHIFT_SLURM_PATIENCE": "6"}
    (tmp_path / "in").mkdir()
    wrapper = shutil.copy(REPOSITORY / "workflow" / "slurm" / "sbatch", tmp_path / "in" / "sbatch")
    gone = subprocess.run([wrapper], env=environment, text=True, capture_output=True, check=False)
    assert gone.returncode == 1
    assert gone.stderr.count("the controller does not answer: again in 5 s") == 1


@pytest.mark.parametrize(("answers", "told"), [("echo 'MinJobAge = 77 sec'", "77"), ("exit 1", "300")])
def test_the_plugin_stays_with_squeue(tmp_path: Path, answers: str, told: str) -> None:
    """Without an answer it would ask sacct, which waits for ever where accounting is off."""
    real = tmp_path / "scontrol"
    real.write_text(f"#!/bin/sh\n[ \"$*\" = 'show config' ] || {{ echo other; exit 3; }}\n{answers}\n")
    real.chmod(0o755)
    (tmp_path / "in").mkdir()
    wrapper = shutil.copy(REPOSITORY / "workflow" / "slurm" / "scontrol", tmp_path / "in" / "scontrol")
    environment = os.environ | {"PATH": f"{tmp_path / 'in'}:{tmp_path}:{os.environ['PATH']}"}
    asked = subprocess.run(
        [wrapper, "show", "config"], env=environment, text=True, capture_output=True, check=True
    )
    assert asked.stdout == f"MinJobAge = {told} sec\n"
    other = subprocess.run([wrapper, "ping"], env=environment, text=True, capture_output=True, check=False)
    assert (other.stdout, other.returncode) == ("other\n", 3)


@pytest.mark.parametrize(
    ("primary", "backup", "waits"), [("UP", "DOWN", 0), ("DOWN", "UP", 0), ("DOWN", "DOWN", 1)]
)
def test_a_step_begins_where_one_of_two_controllers_answers(
    primary: str, backup: str, waits: int, tmp_path: Path
) -> None:
    answer = f"Slurmctld(primary) at a is {primary}\nSlurmctld(backup) at b is {backup}"
    for name, program in (("scontrol", f"cat <<'END'\n{answer}\nEND"), ("srun", 'echo "$@"')):
        (tmp_path / name).write_text(f"#!/bin/sh\n{program}\n")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "in").mkdir()
    wrapper = shutil.copy(REPOSITORY / "workflow" / "slurm" / "srun", tmp_path / "in" / "srun")
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}", "FEDSHIFT_SLURM_PATIENCE": "2"}
    begun = subprocess.run([wrapper, "job"], env=environment, text=True, capture_output=True, check=True)
    assert begun.stdout == "job\n"
    assert begun.stderr.count("the controller does not answer: again in 5 s") == waits
