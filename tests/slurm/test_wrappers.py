"""What the workflow's own `sbatch`, `squeue` and `sacct` add to Slurm's, which stand-ins play here."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.workflow.checkout import REPOSITORY

PACK = "0123456789abcdef"
PLAYED = {
    "sbatch": 'echo "$*" >> sent\ncase "$*" in *"$(cat refused)"*) echo refused >&2; exit 1 ;; esac\ncat number',
    "squeue": "cat queue",
    "sacct": "cat accounts",
    "sinfo": r"printf 'gpu*|n0|idle\ngpu*|n1|mixed\ngpu*|n2|down\n'",
}


@dataclass(frozen=True)
class Place:
    root: Path

    def write(self, name: str, *lines: str) -> None:
        (self.root / name).write_text("".join(f"{line}\n" for line in lines))

    def call(self, name: str, *arguments: str) -> list[str]:
        """The lines of an answer through the workflow's folder."""
        path = os.pathsep.join(
            [str(REPOSITORY / "workflow" / "slurm"), f"{self.root}/bin", f"{Path(sys.executable).parent}"]
        )
        environment = os.environ | {"PATH": f"{path}:{os.environ['PATH']}", "PYTHONPATH": f"{REPOSITORY}/src"}
        done = subprocess.run(
            [REPOSITORY / "workflow" / "slurm" / name, *arguments],
            cwd=self.root, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True,
        )  # fmt: skip
        return done.stdout.splitlines()

    def submit(self, number: int | str, comment: str, *options: str) -> str:
        """Submit a job that gets this number; returns what the real sbatch was given last."""
        self.write("number", str(number))
        self.call(
            "sbatch", "--job-name", "uuid", "--comment", comment, "-p", "gpu", *options, "--wrap", "a b"
        )
        return (self.root / "sent").read_text().splitlines()[-1]

    def a_minute_later(self) -> None:
        (seen,) = (self.root / ".snakemake" / "slurm_jobs").glob("*.seen")
        seen.write_text("".join(f"{line[: line.index('|')]}|1\n" for line in seen.read_text().splitlines()))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    made = Place(tmp_path)
    for name in (".snakemake", "bin"):
        (tmp_path / name).mkdir()
    for name, text in PLAYED.items():
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    made.write("refused", "nothing at all")
    return made


def test_a_job_that_two_answers_do_not_name_is_not_waited_for(place: Place) -> None:
    for number, comment in (
        (1, f"rule_train_wildcards_{PACK}"),
        (2, "rule_evaluate_wildcards_demo"),
        (3, f"rule_train_wildcards_{PACK}"),
    ):
        place.submit(number, comment)
    place.submit("4;elsewhere", f"rule_train_wildcards_{PACK}")  # of another cluster: never named here
    queue = ("1|RUNNING", "2|PENDING", "3|COMPLETED")
    place.write("queue", *queue)
    assert place.call("squeue", "--name", "uuid") == [*queue]
    place.write("queue")
    assert place.call("squeue", "--name", "uuid") == ["3|COMPLETED"]  # as it was seen
    place.a_minute_later()
    place.write("queue", "1|RUNNING")
    assert sorted(place.call("squeue", "--name", "uuid")) == ["1|RUNNING", "2|FAILED", "3|UNKNOWN"]
    place.write("queue")
    assert sorted(place.call("squeue", "--name", "uuid")) == ["2|FAILED", "3|UNKNOWN"]  # 1: first time again
    assert place.call("squeue", "--name", "another") == []


def test_accounts_that_never_hear_of_a_lost_job(place: Place) -> None:
    for number in (1, 2, 3):
        place.submit(number, f"rule_train_wildcards_{PACK}")
    place.write("accounts", "1|RUNNING", "2|CANCELLED by 1000", "3|RUNNING")
    place.write("queue", "3|RUNNING")
    told = ["1|RUNNING", "2|CANCELLED", "3|RUNNING"]
    assert place.call("sacct", "--name", "uuid") == told
    place.a_minute_later()
    assert place.call("sacct", "--name", "uuid") == [*told, "1|UNKNOWN"]


def test_a_job_goes_to_no_node_where_it_failed(place: Place) -> None:
    comment = f"rule_train_wildcards_digits_fedavg_{PACK}"
    assert "--exclude" not in place.submit(1, comment)
    node = place.root / "results" / "nodes" / "n0"
    node.mkdir(parents=True)
    (node / f"{PACK}.json").write_text('{"kind": "RuntimeError", "text": "", "machine": false}')
    assert place.submit(2, comment).endswith("--exclude=n0")
    assert place.submit(3, comment, "--exclude=n7").endswith("--exclude=n0,n7")  # slurm_extra of the user
    assert "--exclude" not in place.submit(4, "rule_train_wildcards_digits_fedavg_other")
    place.write("refused", "--exclude=n0")
    assert "--exclude" not in place.submit(5, comment)  # no other node can take it
