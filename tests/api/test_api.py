"""The Python interface: light until it is used, its examples run, its files have the columns that the page says."""

import doctest
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

import fedshift
from fedshift.analysis.collect import collect
from fedshift.common.errors import FedshiftError
from fedshift.storage.rundir import RunDirectory
from fedshift.storage.workspace import Workspace
from tests.conftest import ROOT, clone
from tests.data.conftest import plant
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
        fedshift.runn  # noqa: B018


def test_the_page_runs_and_its_numbers_are_the_tables(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(home)
    first, second, *_ = re.findall(
        r"```python\n(.*?)```", (ROOT / "docs" / "python.md").read_text(), re.DOTALL
    )
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
    chosen = (data.table["domain"] == "ink") & (data.table["label"] == 3)
    assert len(data.of(domain="ink", label=3)) == chosen.sum()


def _columns_are_those_of_the_page(home: Path, run: fedshift.Run) -> None:
    """Each file's columns, in order, are those of its section of docs/columns.md; axes stand for `<axis>`."""
    workspace, spec = Workspace(home), run.spec
    collect(workspace, "toy")
    metrics = workspace.metrics("toy")
    (features,) = run.directory.evaluated.glob("features-*.parquet")
    files = {
        ">/metrics.parquet": run.directory.metrics,
        "/timings.parquet": run.directory.timings,
        ">/statistics.parquet": run.directory.statistics,
        "`features`": features,
        "<experiment>.parquet": metrics,
        "<experiment>.statistics.parquet": metrics.with_suffix(".statistics.parquet"),
        "<experiment>.runs.parquet": metrics.with_suffix(".runs.parquet"),
        "index.parquet": workspace.prepared(spec.data.prepared_name) / "index.parquet",
        "partitions/<data set>/<recipe>.parquet": workspace.partition(spec.partition_name),
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


@pytest.mark.slow
def test_the_examples_of_the_functions_run(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from fedshift.api import images, runs

    monkeypatch.chdir(home)
    finder, runner = doctest.DocTestFinder(), doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    for function in (images.load_data, runs.run, runs.load_run, runs.evaluate):
        (example,) = finder.find(function, function.__name__, globs={"fedshift": fedshift})
        assert example.examples
        example.source = None
        result = runner.run(example)
        assert result.failed == 0, function.__name__


def test_mistakes_are_named(home: Path) -> None:
    for function, name, said in (
        (fedshift.load_run, "ffff", "no finished run is called 'ffff'"),
        (fedshift.run, "fedvag", "Did you mean 'fedavg'"),
        (fedshift.results, "tooy", "Did you mean 'toy'"),
    ):
        with pytest.raises(FedshiftError, match=said):
            function(name, root=home)
    with pytest.raises(FedshiftError, match="unknown select 'bset_first'"):
        fedshift.results("toy", select="bset_first", root=home)  # type: ignore[arg-type]


@pytest.mark.parametrize(("trained", "last"), [({"rounds": 4}, 4), ({}, 5)])
def test_the_last_round_is_the_one_that_was_trained(
    tmp_path: Path, trained: dict[str, int], last: int
) -> None:
    """Of five that are declared; a summary of before runs stopped early does not say."""
    summary = {"spec": {"federation": {"rounds": 5}}, "best_round": {"first": 3, "later": 2}, **trained}
    (tmp_path / "summary.json").write_text(json.dumps(summary))
    (tmp_path / "metrics.parquet").write_bytes(b"PAR1PAR1")
    run = fedshift.Run(Workspace(tmp_path), RunDirectory(tmp_path))
    assert (run.round(), run.round("best_first"), run.round("best_later")) == (last, 3, 2)


def test_what_callers_have_at_hand_is_taken(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Numbers of NumPy and PyTorch, arrays, paths, ranges; the same run as of plain values."""
    monkeypatch.chdir(home)
    fractions = [0.5, 0.25, 0.25]
    settings = {"local.lr": 0.5, "local.batch": 32, "partition.fractions": fractions}
    odd = {
        "local.lr": np.float64(0.5),
        "local.batch": torch.tensor(32),
        "partition.fractions": np.array(fractions),
    }
    expected = fedshift.run("fedavg", "digits", "ink", seed=5, rounds=0, settings=settings)
    counts = {
        "seed": np.int64(5),
        "rounds": np.uint8(0),
        "threads": np.int32(1),
        "device": torch.device("cpu"),
    }
    run = fedshift.run(np.str_("fedavg"), np.str_("digits"), np.array("ink"), settings=odd, **counts)
    assert run.digest == expected.digest
    assert fedshift.load_run(np.str_(run.digest)).path.samefile(fedshift.load_run(run.path).path)
    tree = plant(tmp_path / "clinics", "ABC", "xy", each=6)
    one = fedshift.run("fedavg", tree, "A", rounds=0)
    assert one.digest == fedshift.run("fedavg", f"folder:{tree}", "A", rounds=0).digest
    assert [*fedshift.results("toy", "id").columns] == [*fedshift.results("toy", np.array(["id"])).columns]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"seed": 1.5}, "seed"),
        ({"seed": np.arange(2)}, "seed"),
        ({"seed": True}, "must be a number, not true or false"),
        ({"rounds": np.float64("nan")}, "rounds"),
        ({"data": 7}, "data: cannot be of type int"),
        ({"data": Path("/no/such/tree")}, "there is no folder '/no/such/tree'"),
        ({"settings": {"local.lr": np.array([0.1, 0.2])}}, "local.lr"),
        ({"settings": [("local.lr", 1)]}, "settings: cannot be of type list"),
        ({"target": 3}, "target"),
        ({"target": ["ink"]}, "'data.target' is not a list of 2 values"),
        ({"threads": 0}, "threads: cannot be 0"),
    ],
)
def test_what_cannot_be_meant_is_named(home: Path, given: dict[str, Any], message: str) -> None:
    with pytest.raises(FedshiftError, match=message):
        fedshift.run("fedavg", **{"data": "digits", "rounds": 0, "root": home} | given)


def test_a_project_is_found_from_below(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(home / "experiments" / "fdse")
    run = fedshift.run("fedavg", "digits", "ink", rounds=0)
    assert run.path.resolve().is_relative_to(home / "results") and not Path("results").exists()
    assert f"project folder: {home}" in capsys.readouterr().err


TINY = """\
title: "Tiny"
protocol: digits
spec: {data: {dataset: folder, release: tiny}, federation: {rounds: 1}, local: {lr: 0.1, batch: 4}}
methods: {fedavg: }
axes: {target: [ward], seed: [0]}
tables: {main: {}}
"""


@pytest.mark.parametrize(("large", "tested"), [(10, (1, 2)), (3, (0, 2))])
def test_a_client_without_a_test_image_has_no_part_in_id(
    home: Path, tmp_path: Path, large: int, tested: tuple[int, int]
) -> None:
    """Of an own tree: 6 images leave one for validation and none for testing; one domain has no image of a
    class.
    """
    root = clone(home, tmp_path / "project")
    tree = plant(tmp_path / "tiny", ["clinic"], "xy", each=large)
    plant(tree, ["rural", "ward"], "x", each=6)
    plant(tree, ["ward"], "y", each=6)
    settings = {"local.lr": 0.1, "local.batch": 4}
    about = {"protocol": "digits", "settings": settings, "root": root}
    run = fedshift.run("fedavg", f"folder:{tree}", "ward", rounds=1, **about)
    assert run.tested == tested and run.summary["absent"] == {"rural": ["y"]}
    records = run.metrics
    own = records[(records["round"] == 1) & (records["metric"] == "accuracy") & (records["client"] >= 0)]
    assert set(own["split"]) == ({"val", "test"} if tested[0] else {"val"})
    expected = {"id": 100 * own.loc[own["split"] == "test", "value"].mean()} if tested[0] else {}
    found = run.accuracy()
    assert {name: value for name, value in found.items() if name != "ood"} == pytest.approx(expected)
    (root / "experiments" / "tiny.yaml").write_text(TINY)
    frame = fedshift.results("tiny", root=root)
    assert frame["clients"].tolist() == [f"{tested[0]} of 2"]
    assert frame["id"].tolist() == pytest.approx([expected.get("id", float("nan"))], nan_ok=True)
