"""The Python interface: light until it is used, its examples run, its files have the columns that the page says."""

from __future__ import annotations

import doctest
import json
import re
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest
import torch

import fedshift
from fedshift.analysis.collection.collect import collect
from fedshift.common.errors import FedshiftError
from fedshift.identity import partition_name, prepared_name
from fedshift.storage.rundir import RunDirectory
from fedshift.storage.workspace import Workspace
from fedshift.training.device import PRETEND
from tests.conftest import ROOT, clone
from tests.once import once

TOY = """\
title: "Toy"
protocol: digits
spec: {federation: {rounds: 2}, local: {lr: 0.1}}
methods: {fedavg: }
axes: {target: [ink], seed: [0]}
tables: {main: {}}
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, digits: Path) -> Path:
    """A project in which docs/python.md's runs are trained."""

    def make(root: Path) -> None:
        clone(digits, root)
        (root / "experiments" / "toy.yaml").write_text(TOY)

    return once(tmp_path_factory, "api", make)


def test_the_package_is_light() -> None:
    code = "import sys, fedshift; print(sorted({'torch', 'pandas', 'numpy', 'pydantic'} & {*sys.modules}), *dir(fedshift))"
    output = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True, check=True).stdout
    assert output.startswith("[] ") and "load_data" in output
    with pytest.raises(AttributeError, match="no attribute 'runn'"):
        fedshift.runn  # type: ignore[attr-defined]  # noqa: B018


def test_the_page_runs_and_its_numbers_are_the_tables(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(home)
    first, second = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "python.md").read_text(), re.DOTALL)
    names: dict[str, object] = {}
    exec(first, names)
    run, data = names["run"], names["data"]
    assert isinstance(run, fedshift.Run) and isinstance(data, fedshift.Data)
    assert names["same"] == run
    frame = fedshift.results("toy")
    assert list(frame.columns) == ["method", "target", "seed", "round", "id", "ood"]
    assert frame[["id", "ood"]].iloc[0].to_dict() == pytest.approx(run.accuracy())
    exec(second.replace('"demo"', '"toy"'), names)
    _columns_are_those_of_the_page(home, run)
    assert (
        len(data.of(domain="ink", label=3))
        == ((data.table["domain"] == "ink") & (data.table["label"] == 3)).sum()
    )


def _columns_are_those_of_the_page(home: Path, run: fedshift.Run) -> None:
    """Each file's columns, in order, are those of its section of docs/columns.md; axes stand for `<axis>`."""
    workspace, spec = Workspace(home), run.spec
    collect(workspace, "toy")
    metrics = workspace.metrics("toy")
    (features,) = run.directory.evaluated.glob("features-*.parquet")
    files = {
        "<code>/metrics.parquet": run.directory.metrics,
        "<code>/statistics.parquet": run.directory.statistics,
        "`features`": features,
        "<experiment>.parquet": metrics,
        "<experiment>.statistics.parquet": metrics.with_suffix(".statistics.parquet"),
        "<experiment>.runs.parquet": metrics.with_suffix(".runs.parquet"),
        "index.parquet": workspace.prepared(prepared_name(spec.data)) / "index.parquet",
        "partitions/<data set>/<recipe>.parquet": workspace.partition(partition_name(spec)),
    }
    sections = re.split(r"^### ", (ROOT / "docs" / "columns.md").read_text(), flags=re.MULTILINE)[1:]
    for title, path in files.items():
        (section,) = [part for part in sections if title in part.partition("\n")[0]]
        listed = re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE)
        if title == "`features`":
            listed = ["round", "stage", "model", "member", "client", "split", *listed]
        if "<axis>" in listed:
            listed[listed.index("<axis>") : listed.index("<axis>") + 1] = ["target", "seed"]
        assert pq.read_schema(path).names == listed, title


def test_the_examples_of_the_functions_run(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from fedshift.api import finished, images, runs

    monkeypatch.chdir(home)
    finder, runner = doctest.DocTestFinder(), doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    for function in (images.load_data, runs.run, runs.load_run, finished.evaluate):
        (example,) = finder.find(function, function.__name__, globs={"fedshift": fedshift})
        assert example.examples
        example.source = None
        result = runner.run(example)
        assert result.failed == 0, function.__name__


def test_mistakes_are_named(home: Path) -> None:
    with pytest.raises(FedshiftError, match="no finished run is called 'ffff'"):
        fedshift.load_run("ffff", root=home)
    with pytest.raises(FedshiftError, match="Did you mean 'fedavg'"):
        fedshift.run("fedvag", root=home)
    with pytest.raises(FedshiftError, match="Did you mean 'toy'"):
        fedshift.results("tooy", root=home)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_a_gpu_that_is_not_there_is_missed_before_anything_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(PRETEND, raising=False)
    run = fedshift.Run(Workspace(tmp_path), RunDirectory(tmp_path))
    with pytest.raises(FedshiftError, match="no working CUDA on"):
        fedshift.evaluate(run, "confusion", device="cuda")
    with pytest.raises(FedshiftError, match="unknown device 'gpu'"):
        fedshift.evaluate(run, "confusion", device="gpu")


@pytest.mark.parametrize(("trained", "last"), [({"rounds": 4}, 4), ({}, 5)])
def test_the_last_round_is_the_one_that_was_trained(
    tmp_path: Path, trained: dict[str, int], last: int
) -> None:
    """Of five that are declared; a summary of before runs stopped early does not say."""
    summary = {"spec": {"federation": {"rounds": 5}}, "best_round": {"first": 3}, **trained}
    (tmp_path / "summary.json").write_text(json.dumps(summary))
    run = fedshift.Run(Workspace(tmp_path), RunDirectory(tmp_path))
    assert (run.round(), run.round("best_first"), run.round("best_later")) == (last, 3, last)


def test_types_are_frames(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(home)
    run = fedshift.run("fedavg", "digits", "ink", rounds=2, protocol="digits", settings={"local.lr": 0.1})
    assert all(isinstance(frame, pd.DataFrame) for frame in (run.metrics, run.statistics))
    with pytest.raises(FedshiftError, match="fedavg records no diagnostics"):
        _ = run.diagnostics
