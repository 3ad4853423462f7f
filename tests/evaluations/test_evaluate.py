"""Real runs, evaluated by the command line: what is made once, gathered, read, made again, and refused."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

from fedshift.analysis.evaluated import evaluated, restore
from fedshift.analysis.metrics.base import as_array
from fedshift.common.errors import FedshiftError
from fedshift.common.files import write_json
from fedshift.experiments import task
from fedshift.experiments.task import read_result
from fedshift.planning import planfile
from fedshift.storage.workspace import Workspace
from tests.conftest import clone
from tests.verbs import done, fedshift, refused

TINY: dict[str, Any] = {
    "title": "Tiny",
    "protocol": "digits",
    "spec": {"federation": {"rounds": 1}, "local": {"epochs": 1, "batch": 64}},
    "methods": {"fedavg": None, "fedbn": None},
    "evaluations": ["confusion", {"features": {"images": 5}}],
    "axes": {"target": ["plain"], "seed": [0, 1]},
}


@pytest.fixture(scope="module")
def trained(digits: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An experiment of four finished runs."""
    root = clone(digits, tmp_path_factory.mktemp("trained"))
    declare(root)
    path = root / done(fedshift(root, "plan", "tiny", "--print", "path")).strip()
    done(fedshift(root, "partition", "--plan", str(path)))
    done(fedshift(root, "train-pack", *(run.digest for run in planfile.runs(path)), "--plan", str(path)))
    return root


@pytest.fixture
def finished(trained: Path, tmp_path: Path) -> Path:
    """The test's own copy of them."""
    return shutil.copytree(trained, tmp_path, symlinks=True, dirs_exist_ok=True)


def declare(project: Path, **changes: Any) -> None:
    (project / "experiments" / "tiny.yaml").write_text(yaml.safe_dump({**TINY, **changes}, sort_keys=False))


def results(project: Path, name: str = "") -> dict[Path, int]:
    found = (project / "results" / "runs").rglob(f"evaluated/{name}*.parquet")
    return {path: path.stat().st_mtime_ns for path in found}


def test_what_an_experiment_asks_for(finished: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Made, gathered, counted as the runs did; not made twice; made again by other code; known where it was pulled."""
    shown = done(fedshift(finished, "evaluate", "tiny"))
    folder = finished / "results" / "metrics" / "tiny.evaluated"
    assert f"confusion: 4 of 4 runs: {folder / 'confusion.parquet'}" in shown
    assert {path.name for path in folder.iterdir()} == {"confusion.parquet", "features-5.parquet"}
    made = results(finished)
    assert len(made) == 8

    workspace = Workspace(finished)
    cells = evaluated(workspace, "tiny", "confusion")
    counts = as_array(cells["counts"]).reshape(-1, 10, 10)
    frame = cells.to_pandas()
    assert frame.groupby(["method", "seed"]).size().to_dict() == {
        ("fedavg", 0): 4, ("fedavg", 1): 4, ("fedbn", 0): 4, ("fedbn", 1): 4
    }  # three clients' test images and the target  # fmt: skip
    place = ["round", "stage", "model", "member", "client", "split"]
    for run in workspace.runs():
        recorded = pd.read_parquet(run.statistics).set_index(place)
        of = frame["digest"] == run.digest
        assert of.sum() == 4
        for row, matrix in zip(frame[of][place].itertuples(index=False), counts[of], strict=True):
            there = recorded.loc[tuple(row)]
            assert np.array_equal(matrix.sum(1), there["n"])
            assert np.array_equal(matrix.diagonal(), there["correct"])

    features = evaluated(workspace, "tiny", "features-5").to_pandas()
    assert len(features) == 4 * 4 * 5 and len({*map(len, features["feature"])}) == 1
    assert {*features[features["split"] == "target"]["domain"]} == {"plain"}
    assert {*features[features["split"] == "test"]["domain"]} == {"outline", "ink", "texture"}
    by_method = features.groupby("method")["sample"].agg(list)
    assert by_method["fedavg"] == by_method["fedbn"]

    done(fedshift(finished, "evaluate", "tiny"))
    assert results(finished) == made

    known = task.fingerprint
    changed = lambda *of: "changed!" if of[-1].endswith("confusion") else known(*of)  # noqa: E731
    monkeypatch.setattr(task, "fingerprint", changed)
    (plan,) = (finished / "results" / "plan").glob("*.json")
    late = fedshift(finished, "evaluate", "tiny", "--plan", str(plan))
    refused(late, "evaluation confusion: the code has changed since this was planned", "Run snakemake again")
    done(fedshift(finished, "evaluate", "tiny"))
    again = results(finished)
    assert {path: again[path] for path in made} == made and len(results(finished, "confusion")) == 8
    assert len(again) == 12
    monkeypatch.undo()

    summaries = {run.name: run.summary() for run in workspace.runs()}
    write_json(workspace.pack("0123").path, {"pack": "0123", "finished": summaries, "failed": {}})
    kept = {path: read_result(path) for path in again if path.name.startswith("features")}
    for path in kept:
        path.unlink()
    restore(workspace)
    for path, (table, stamp) in kept.items():
        there, told = read_result(path)
        assert there.equals(table) and told == stamp


def test_by_hand(finished: Path) -> None:
    """Of an experiment that does not ask for it, of one run, of other images and weights."""
    declare(finished, evaluations=[], axes={"target": ["plain"], "seed": [0, 1, 2]})
    made = fedshift(
        finished, "evaluate", "tiny", "features", "--param", "images=2", "--param", "splits=[val]"
    )
    assert "features-2-val: 4 of 6 runs" in done(made) and made.output.count("not finished: ") == 2
    assert {*evaluated(Workspace(finished), "tiny", "features-2-val").to_pandas()["split"]} == {"val"}
    shown = done(fedshift(finished, "evaluate", "tiny", "confusion", "--select", "last", "--full-domain"))
    assert "confusion-last-full_domain: 4 of 6 runs" in shown
    (name, *_) = (run.name for run in Workspace(finished).runs())
    before = results(finished)
    shown = done(fedshift(finished, "evaluate", name, "confusion", "--select", "last", "--full-domain"))
    assert "confusion: " in shown and results(finished) == before
    with pytest.raises(
        FedshiftError, match=r"not been evaluated so\n  Run `fedshift evaluate tiny confusion`"
    ):
        evaluated(Workspace(finished), "tiny", "confusion")


def test_a_run_without_weights_leaves_the_others_alone(finished: Path) -> None:
    first, *others = (run.path for run in Workspace(finished).runs())
    shutil.rmtree(first / "weights")
    said = fedshift(finished, "evaluate", "tiny", "confusion")
    assert said.exit_code == 1
    assert "confusion: 3 of 4 runs: " in said.output
    assert {path.parents[1] for path in results(finished)} == {*others}
    assert f"error: {first / 'weights'}" in said.output.splitlines()[-2]
    assert len(evaluated(Workspace(finished), "tiny", "confusion").group_by("digest").aggregate([])) == 3
