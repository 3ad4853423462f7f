"""A run in its directory: killed anywhere, it goes on bit for bit; finished, it is only read."""

import contextlib
import json
import logging
import multiprocessing
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors import safe_open

from fedshift.common.errors import FedshiftError
from fedshift.common.tensors import read_tensors, write_tensors
from fedshift.data.partition import partition
from fedshift.federation.loop import Federation
from fedshift.spec import RunSpec
from fedshift.spec.resolve import resolve
from fedshift.storage.rundir import RunDirectory
from fedshift.storage.workspace import Workspace
from fedshift.testing.toys import spec as spec_with
from fedshift.training.run import Machine, train
from tests import killed
from tests.common.test_files import end, held
from tests.conftest import ROOT, Edit

pytestmark = pytest.mark.slow

MACHINE = Machine(torch.device("cpu"), 1, checkpoint_seconds=0)


def spec_of(method: str, **local: Any) -> RunSpec:
    chosen = {"batch": 64, "lr": 0.05, "momentum": 0.9, "optimizer_state": "persist", **local}
    blocks: dict[str, Any] = {"method": {"name": method}, "local": chosen, "federation": {"rounds": 3}}
    return resolve(spec_with(data={"target": "texture"}, partition={"fractions": [0.3, 0.1, 0.6]}, **blocks))


def results(root: Path, spec: RunSpec) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Summary and reproducible files of a finished run: metrics, statistics, diagnostics, weights."""
    run = Workspace(root).run(spec.run_name).path
    paths = [path for path in (*run.glob("*s.parquet"), *run.glob("weights/*")) if path.stem != "timings"]
    return json.loads((run / "summary.json").read_text()), {path.name: path.read_bytes() for path in paths}


def reproducible(summary: dict[str, Any]) -> dict[str, Any]:
    """A summary less what depends on the machine and its load."""
    costs = {
        name: value for name, value in summary["costs"].items() if name not in ("seconds", "peak_memory_mb")
    }
    return {**summary, "costs": costs, "environment": None, "finished": None}


def assert_same(one: Path, other: Path, spec: RunSpec) -> None:
    (first, files), (second, files2) = (results(root, spec) for root in (one, other))
    recorded = {"diagnostics.parquet"} if spec.method.name == "fdse" else set()
    assert {"metrics.parquet", "statistics.parquet"} | recorded <= files.keys()
    assert any(name.endswith(".safetensors") for name in files)
    assert files == files2
    assert reproducible(first) == reproducible(second)


def test_run_that_its_last_holder_finished_is_only_read(
    project: Path, digits: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process finishes between the first look and the lock."""
    spec = spec_of("fedavg")
    run = Workspace(project).run(spec.run_name).path
    partition(Workspace(project), spec)
    told = train(Workspace(project), spec, MACHINE)
    away = run.with_name("away")
    run.rename(away)

    @contextlib.contextmanager
    def late(path: Path) -> Iterator[None]:
        away.rename(path.parent)
        yield

    monkeypatch.setattr("fedshift.training.run.locked", late)
    before = (away / "summary.json").stat().st_mtime_ns
    assert train(Workspace(project), spec, MACHINE) == told
    assert (run / "summary.json").stat().st_mtime_ns == before


# Processes to be killed are forks of one that has imported torch and has computed nothing.
MORTAL = multiprocessing.get_context("forkserver")
MORTAL.set_forkserver_preload(["tests.killed"])
PLACES = [
    ("client", 2),
    ("client", 6),
    ("round", 2),
    ("checkpoint", 2),
    ("segment", 2),
    ("segment", 3),
    ("sigterm", 5),
]


def rounds_in(path: Path) -> int:
    """How many finished rounds a checkpoint holds."""
    with safe_open(path, framework="pt") as file:
        return int(json.loads(file.metadata()["values"])["round"])


@pytest.mark.parametrize("method", ["fedbn", "fdse", "scaffold", "ditto"])
def test_killed_anywhere_it_goes_on_bit_for_bit(
    method: str, project: Path, digits: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """kill -9 at a client of the first and of the second round, at an aggregation, while a checkpoint is written, and between it and its segments.

    SIGTERM, which is obeyed at the end of the round.
    """
    spec = spec_of(method)
    whole = project / "whole"
    for root in [whole, *(project / f"{how}{place}" for how, place in PLACES)]:
        root.mkdir()
        (root / "data").symlink_to(project / "data")
    partition(Workspace(whole), spec)
    train(Workspace(whole), spec, MACHINE)
    file = project / "spec.json"
    file.write_text(json.dumps(spec.model_dump(mode="json")))
    monkeypatch.setenv("PYTHONPATH", f"{ROOT / 'src'}:{ROOT}")
    for how, place in PLACES:
        root = project / f"{how}{place}"
        died = MORTAL.Process(target=killed.main, args=(str(root), str(file), how, str(place)))
        died.start()
        died.join()
        told = how == "sigterm"
        assert died.exitcode == (128 + signal.SIGTERM if told else -signal.SIGKILL)
        run = Workspace(root).run(spec.run_name).path
        assert not (run / "summary.json").exists()
        assert (run / "lock.json").exists() != told  # who is told to stop frees the run
        if told:
            assert rounds_in(run / "checkpoint.safetensors") == 2  # the round under way is in it
        train(Workspace(root), spec, MACHINE)
        assert_same(whole, root, spec)
        assert not (run / "lock.json").exists()
        assert not (run / "checkpoint.safetensors").exists()


def stopped(project: Path) -> tuple[RunSpec, RunDirectory]:
    """A run that was stopped after its first round."""

    run = Federation.run

    def stops(federation: Federation) -> Iterator[int]:
        for finished in run(federation):
            if finished == 2:
                raise MemoryError
            yield finished

    spec = spec_of("fedavg")
    partition(Workspace(project), spec)
    with pytest.MonkeyPatch.context() as patch, pytest.raises(MemoryError):
        patch.setattr(Federation, "run", stops)
        train(Workspace(project), spec, MACHINE)
    return spec, Workspace(project).run(spec.run_name)


def test_a_signal_whenever_it_comes_leaves_a_checkpoint(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SIGTERM while it is asked whether a checkpoint is due."""
    spec, clock, armed = spec_of("fedavg"), time.monotonic, False
    partition(Workspace(project), spec)

    def struck() -> float:
        if armed:
            signal.raise_signal(signal.SIGTERM)
        return clock()

    run = Federation.run

    def rounds(federation: Federation) -> Iterator[int]:
        nonlocal armed
        for finished in run(federation):
            armed = finished == 1
            yield finished

    monkeypatch.setattr(Federation, "run", rounds)
    monkeypatch.setattr("fedshift.training.run.time", SimpleNamespace(monotonic=struck))
    with pytest.raises(SystemExit, match="143"):
        train(Workspace(project), spec, Machine(torch.device("cpu")))
    assert rounds_in(Workspace(project).run(spec.run_name).checkpoint) == 2


@pytest.mark.parametrize(("new", "anew"), [("name = 'fedavg'", False), ("other = name = 'fedavg'", True)])
def test_a_run_whose_method_changed_starts_anew(
    project: Path, edited: Edit, caplog: pytest.LogCaptureFixture, new: str, anew: bool
) -> None:
    """A checkpoint by the very method of now is gone on from."""
    spec, run = stopped(project)
    tensors, facts = read_tensors(run.checkpoint, "")
    write_tensors(run.checkpoint, tensors, {**facts, "seconds": "1000"})
    edited("fedshift.methods.fedavg", 'name = "fedavg"', new)
    with caplog.at_level(logging.WARNING, "fedshift.train"):
        summary = train(Workspace(project), spec, MACHINE)
    assert ("begun before the method's file changed" in caplog.text) is anew
    assert (summary["costs"]["seconds"] < 1000) is anew
    assert (summary["method_code"] == facts["code"]) is not anew
    rounds = pd.read_parquet(run.metrics).groupby("round").size()
    assert rounds[1] == rounds[2] == rounds[3]  # none twice


def test_a_second_writer_is_refused_while_the_first_lives(project: Path) -> None:
    spec = spec_of("fedavg")
    run = Workspace(project).run(spec.run_name).path
    run.mkdir(parents=True)
    other = held(run / "lock.json")
    partition(Workspace(project), spec)
    try:
        with pytest.raises(FedshiftError, match=f"is being trained by .*{other.pid}"):
            train(Workspace(project), spec, MACHINE)
    finally:
        end(other)
    assert train(Workspace(project), spec, MACHINE)["method"] == "fedavg"


def test_segments_are_immutable_and_merge_to_the_metrics(project: Path) -> None:
    spec = spec_of("fdse")
    partition(Workspace(project), spec)
    train(Workspace(project), spec, MACHINE)
    run = Workspace(project).run(spec.run_name).path
    for name in ("metrics", "statistics", "diagnostics"):
        folder = "segments" if name == "metrics" else f"segments/{name}"
        segments = sorted((run / folder).glob("*.parquet"))
        assert [path.name for path in segments] == [
            "000000-000001.parquet",
            "000002-000002.parquet",
            "000003-000003.parquet",
        ]
        merged = pd.concat([pd.read_parquet(path) for path in segments], ignore_index=True)
        if name == "metrics":
            of_machine = merged["stage"] == "machine"
            timings = merged[of_machine].reset_index(drop=True)
            pd.testing.assert_frame_equal(timings, pd.read_parquet(run / "timings.parquet"))
            merged = merged[~of_machine].reset_index(drop=True).assign(time=np.nan)
        pd.testing.assert_frame_equal(merged, pd.read_parquet(run / f"{name}.parquet"))


@pytest.mark.parametrize("torn", ["summary.json", "checkpoint.safetensors"])
def test_what_starts_anew_records_each_round_once(torn: str, project: Path) -> None:
    """Segments of the life before, which end at other rounds, are not merged with the new ones."""
    spec = spec_of("fdse")
    partition(Workspace(project), spec)
    train(Workspace(project), spec, MACHINE)
    run = Workspace(project).run(spec.run_name)
    before = pd.read_parquet(run.metrics).drop(columns="time")
    run.summary_file.write_bytes(b"")
    if torn == "checkpoint.safetensors":
        run.checkpoint.write_bytes(b"")
        with pytest.raises(FedshiftError, match="Delete it"):
            train(Workspace(project), spec, MACHINE)
        run.checkpoint.unlink()
    train(Workspace(project), spec, Machine(torch.device("cpu"), 1, 1e9))
    pd.testing.assert_series_equal(
        pd.read_parquet(run.metrics).groupby("round").size(), before.groupby("round").size()
    )


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_where_a_gpu_was_asked_for_nothing_trains_on_a_cpu(project: Path) -> None:
    """The failure says so, and that another machine may do it."""
    spec = spec_of("fedavg")
    partition(Workspace(project), spec)
    with pytest.raises(FedshiftError, match=r"no working CUDA on .*\n.*device: cpu"):
        train(Workspace(project), spec, Machine(torch.device("cuda")))
    failure = Workspace(project).run(spec.run_name).failure()
    assert failure is not None and failure["retry"]


def test_a_machine_that_trains_no_round_is_not_recorded(project: Path) -> None:
    """It may have another device than the checkpoint, or lack the partition."""
    spec, run = stopped(project)
    before = run.environment.read_text()
    partition = Workspace(project).partition(spec.partition_name)
    partition.rename(project / "away")
    with pytest.raises(FedshiftError, match="partition is not there"):
        train(Workspace(project), spec, Machine(torch.device("cpu"), 2))
    assert run.environment.read_text() == before
    (project / "away").rename(partition)
    train(Workspace(project), spec, Machine(torch.device("cpu"), 2))
    known = json.loads(run.environment.read_text())
    assert known["threads"] == 2 and len(known["earlier"]) == 1
