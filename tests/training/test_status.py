"""Where runs stand, and which packs are asked for again."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

from fedshift.planning import planfile
from fedshift.planning.planfile import Run
from fedshift.training import claim
from fedshift.training.status import state


def run_of(name: str, pack: str = "p") -> Run:
    return Run(name, "c", f"runs/{name}", "d", "m", "t", 0, "{}", pack, "", 1, 1, 1.0, 1, 1, "i", "j")


def put(root: Path, run: Run, file: str, content: object) -> None:
    (root / run.directory).mkdir(parents=True, exist_ok=True)
    (root / run.directory / file).write_text(json.dumps(content))


FAILED = {"kind": "FedshiftError", "text": "loss is not a number", "retry": False}


def test_each_state(tmp_path: Path) -> None:
    missing, done, failed, running, again, dead = (run_of(name) for name in "abcdef")
    me = {"host": socket.gethostname(), "pid": os.getpid(), "born": claim._born(os.getpid()), "job": "12"}
    put(tmp_path, done, "summary.json", {})
    put(tmp_path, failed, "failure.json", FAILED)
    put(tmp_path, running, "claim.json", me)
    put(tmp_path, again, "failure.json", FAILED)  # an earlier failure; it is being tried again
    put(tmp_path, again, "claim.json", me)
    put(tmp_path, dead, "claim.json", {**me, "born": "1"})
    assert state(tmp_path, missing) == ("missing", "")
    assert state(tmp_path, done) == ("finished", "")
    assert state(tmp_path, failed) == (
        "failed",
        "FedshiftError: loss is not a number (a retry does not help)",
    )
    assert state(tmp_path, running)[1] == f"{me['host']}:{me['pid']}, Slurm job 12"
    assert state(tmp_path, again)[0] == "running"
    assert state(tmp_path, dead) == ("missing", "")


def test_retry_asks_again_for_exactly_the_packs_with_failures(tmp_path: Path) -> None:
    good, bad, open_ = run_of("a", "good"), run_of("b", "bad"), run_of("c", "open")
    put(tmp_path, good, "summary.json", {})
    put(tmp_path, bad, "failure.json", FAILED)
    put(tmp_path, open_, "failure.json", {**FAILED, "retry": True})
    assert planfile.stamp(tmp_path, "good", [good])
    assert planfile.stamp(tmp_path, "bad", [bad])
    assert not planfile.stamp(tmp_path, "open", [open_])  # snakemake tries it again by itself
    assert planfile.retry_failed(tmp_path, [good, bad, open_]) == 1
    assert [path.name for path in (tmp_path / "results" / "packs").iterdir()] == ["good.json"]
