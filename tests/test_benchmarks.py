"""Benchmarks are scripts, whose folder is the first in which Python looks for modules."""

import importlib
import json
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

import pytest
import torch

from fedshift.archive import store
from fedshift.archive.file import check
from fedshift.spec import RunSpec
from fedshift.storage.rundir import State
from fedshift.storage.workspace import Workspace
from tests.conftest import ROOT

GPU_CHECK = [sys.executable, "benchmarks/gpu_check.py"]


def test_none_hides_a_module_of_pythons() -> None:
    names = {path.stem for path in (ROOT / "benchmarks").glob("*.py")}
    assert len(names) > 5 and not names & sys.stdlib_module_names


@pytest.mark.slow
def test_pairs_prints_the_differences_of_archived_runs(tmp_path: Path) -> None:
    for name in ("experiments", "reference", "results-archive"):
        shutil.copytree(ROOT / name, tmp_path / name)
    shutil.copy(ROOT / "params.yaml", tmp_path)
    options = ["hfedf/precision_photo", "local.precision", "fp32", "bf16", "--rules", "last", "last_third"]
    command = [sys.executable, "benchmarks/pairs.py", *options, "--root", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    rows = re.findall(r"^\| hfedf \| (.*) \| 3 \|$", done.stdout, re.MULTILINE)
    assert sorted(rows) == [
        "last | id | 60.9 | 60.3 | +0.6 | -2.4 to +3.6",
        "last | ood | 50.1 | 50.1 | +0.0 | -6.1 to +6.1",
        "last_third | id | 58.6 | 58.7 | -0.2 | -1.8 to +1.5",
        "last_third | ood | 46.5 | 47.3 | -0.8 | -3.2 to +1.6",
    ], done.stdout + done.stderr


@pytest.mark.slow
def test_the_check_of_a_gpu_plays_on_a_cpu_and_can_fail(tmp_path: Path) -> None:
    out = tmp_path / "report.md"
    options = ["--device", "cpu", "--methods", "fedavg", "fedsr", "--work", "digits"]
    command = [*GPU_CHECK, *options, "--packs", "1", "--out", str(out), "--tolerance", "-1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    report = out.read_text()
    assert "| fedavg | 0.0e+00 | 0.000 |" in report and "Failed: fedavg, fedsr:" in report
    assert "| fedsr | 0.0e+00 | 0.000 (draws there) |" in report
    assert "| digits | fp32 | " in report and "digits_cnn,32,cpu,fp32," in report and "| 1 | " in report


@pytest.mark.slow
@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_without_a_gpu_it_says_so() -> None:
    done = subprocess.run(GPU_CHECK, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1 and "no GPU that torch can use" in done.stderr


TINY = """\
title: "Tiny"
protocol: digits
spec: {{federation: {{rounds: {rounds}}}, local: {{epochs: 1}}}}
methods: {{fedavg: }}
axes: {{target: [plain], seed: [0]}}
tables: {{main: {{columns: [target]}}}}
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with two experiments of one run, a short and a long one."""
    shutil.copytree(ROOT / "reference", tmp_path / "here" / "reference")
    for name, rounds in (("short", 1), ("long", 100_000)):
        path = tmp_path / "here" / "experiments" / f"{name}.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(TINY.format(rounds=rounds))
    return tmp_path / "here"


@pytest.fixture
def minutes(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("gpu_minutes")


def said_by(minutes: Any, capsys: pytest.CaptureFixture[str], *words: str | Path) -> str:
    minutes.main(map(str, words))
    return capsys.readouterr().out


@pytest.mark.slow
def test_runs_of_minutes_on_a_gpu_come_back_as_archive_files(
    project: Path, tmp_path: Path, minutes: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """On a CPU, where no step is recorded."""
    data, out, clone = tmp_path / "campaign.tar", tmp_path / "out", tmp_path / "clone"
    assert "1 of 1 runs" in said_by(minutes, capsys, "pack", "short", "--file", data, "--root", project)
    shutil.copytree(project, clone)
    options = ["--device", "cpu", "--probe", "--check", "fedavg", "--processes", "1", "--minutes", "10"]
    places = ["--data", str(data), "--work", str(tmp_path / "there"), "--out", str(out)]
    command = [sys.executable, "benchmarks/gpu_minutes.py", "run", *options, *places]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]
    assert not [row for row in rows if "failed" in row] and rows[-1]["part"] == "end"
    checked = next(row for row in rows if row.get("method") == "fedavg")
    assert [checked[name] for name in ("rate", "again", "eager")] == [0, 0, 0]
    assert [(row["state"], row["graph"]) for row in rows if "state" in row] == [("finished", "auto")]
    assert {path.name for path in out.iterdir()} == {"results.jsonl", "runs-0.tar"}
    for new in (1, 0):
        assert f"{new} archived runs are new" in said_by(
            minutes, capsys, "take", out / "runs-0.tar", "--root", clone
        )
    (archived,) = store.files(Workspace(clone))
    check(Workspace(clone), archived)
    assert archived.machine.graph == "off"
    assert "0 of 0 runs" in said_by(minutes, capsys, "pack", "short", "--file", data, "--root", clone)


@pytest.mark.slow
def test_a_run_that_a_gpu_has_no_time_for_comes_back_with_its_checkpoint(
    project: Path, tmp_path: Path, minutes: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    data, there, clone = tmp_path / "campaign.tar", Workspace(tmp_path / "there"), tmp_path / "clone"
    said_by(minutes, capsys, "pack", "long", "--file", data, "--root", project)
    shutil.copytree(project, clone)
    (run,) = minutes.unpacked(data, there)
    assert minutes.chosen([run], 9.0, 1.0) == run and minutes.chosen([run], 4.0, 1.0) is None
    ours, theirs = Pipe()
    ours.send((RunSpec.model_validate_json(run.spec), "auto"))
    before = signal.getsignal(signal.SIGALRM)
    minutes.worker(theirs, there.root, "cpu", time.time() + 15)
    signal.signal(signal.SIGALRM, before)
    assert [ours.recv()[0], ours.recv()[0]] == ["ready", "stopped"]
    (tmp_path / "out").mkdir()
    files = minutes.checkpointed(there, there.run_at(run.directory))
    minutes.add(tmp_path / "out", "unfinished", files)
    (tar,) = (tmp_path / "out").iterdir()
    assert "0 archived runs are new" in said_by(minutes, capsys, "take", tar, "--root", clone)
    assert Workspace(clone).run_at(run.directory).state() is State.INTERRUPTED
    said_by(minutes, capsys, "pack", "long", "--file", data, "--root", clone)
    with tarfile.open(data) as packed:
        assert f"{run.directory}/checkpoint.safetensors" in packed.getnames()
