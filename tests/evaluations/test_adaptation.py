"""Real runs, adapted by the command line: what is read back, on which images, and what is refused."""

import json
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from safetensors.torch import load_file, save_file

from fedshift.data.load import load
from fedshift.data.partition import divide, partition
from fedshift.data.prepare import load_index
from fedshift.evaluations._adaptation import unlabelled
from fedshift.evaluations.base import Trained
from fedshift.experiments.task import read_result
from fedshift.spec import RunSpec, parse
from fedshift.spec.resolve import resolve
from fedshift.storage.workspace import Workspace
from fedshift.testing import toys
from fedshift.training.assemble import assemble
from fedshift.training.run import Machine, train
from tests.conftest import clone
from tests.verbs import done, fedshift, refused

pytestmark = pytest.mark.slow

CPU = torch.device("cpu")


def spec(method: str, **blocks: dict[str, Any]) -> RunSpec:
    chosen = {
        "data": {"dataset": "digits", "target": "texture"},
        "model": {"name": "digits_cnn"},
        "method": {"name": method},
        "local": {"batch": 64, "lr": 0.05},
        "federation": {"rounds": 1},
    }
    merged = {name: {**chosen.get(name, {}), **blocks.get(name, {})} for name in chosen | blocks}
    return resolve(parse(merged, "test"))


def trained(root: Path, run: RunSpec) -> Path:
    partition(Workspace(root), run)
    train(Workspace(root), run, Machine(CPU))
    return directory_of(root, run)


def directory_of(root: Path, run: RunSpec) -> Path:
    return Workspace(root).run(run.run_name).path


@pytest.fixture(scope="module")
def finished(digits: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with a run each of fedavg and fdse."""
    root = clone(digits, tmp_path_factory.mktemp("finished"))
    for method in ("fedavg", "fdse"):
        trained(root, spec(method))
    return root


@pytest.fixture
def copied(finished: Path, tmp_path: Path) -> Path:
    """The test's own copy of it."""
    return shutil.copytree(finished, tmp_path, symlinks=True, dirs_exist_ok=True)


def results(root: Path) -> list[Path]:
    return sorted((root / "results" / "runs").rglob("evaluated/*.parquet"))


def values(path: Path, stage: str) -> dict[str, float]:
    """The metrics of an adaptation before ("post_agg") or after it ("adapted")."""
    return {row["metric"]: row["value"] for row in read_result(path)[0].to_pylist() if row["stage"] == stage}


@pytest.mark.parametrize(("method", "adaptation"), [("fdse", "fdse"), ("fedavg", "fedbn")])
def test_run_is_adapted_once(method, adaptation, copied):
    directory = directory_of(copied, spec(method))
    command = ["evaluate", directory.name[:9], adaptation]
    command += ["--select", "last", "--full-domain", "--param", "epochs=1"]
    shown = done(fedshift(copied, *command))
    (path,) = results(copied)
    assert path.parent == directory / "evaluated" and path.stem.startswith(f"{adaptation}-")
    assert str(path) in shown
    table, told = read_result(path)
    assert told["environment"]["tf32"] == {"convolutions": False, "matrices": False}  # whatever torch allows
    metrics = pd.read_parquet(directory / "metrics.parquet").query(
        "split == 'target' and stage == 'post_agg' and round == 1"
    )
    recorded = metrics.set_index("metric")["value"]
    before, after = values(path, "post_agg"), values(path, "adapted")
    assert {*table["n"].to_pylist()} == {metrics["n"].iloc[0]} and told["task"]["params"]["epochs"] == 1
    assert before["accuracy"] == recorded["accuracy"]  # the model that the run itself tested
    assert before["loss"] == pytest.approx(recorded["loss"], rel=1e-6)
    assert after["loss"] != before["loss"]
    summary = json.loads((directory / "summary.json").read_text())
    assert told["weights"] == summary["hashes"]["weights_last"]
    assert {*table["round"].to_pylist()} == {1}  # the run's one round
    written = path.stat().st_mtime_ns
    assert done(fedshift(copied, *command)) == shown
    assert results(copied) == [path] and path.stat().st_mtime_ns == written
    done(fedshift(copied, *command[:-1], "epochs=2"))
    assert len(results(copied)) == 2


def test_adapted_to_and_tested_on_are_the_images_that_the_run_tests(project):
    """With `target_split: client`, the split that the domain would have as a client; by default the whole domain."""
    run = spec("fedavg", partition={"target_split": "client"})
    whole = spec("fedavg")
    for one in (run, whole):
        partition(Workspace(project), one)
    index = load_index(Workspace(project).prepared(run.data.prepared_name))
    data = load(Workspace(project), run)
    (chosen,) = data.targets
    everybody = divide(index, spec("fedavg", data={"target": None}))
    rows = everybody[(everybody["domain"] == "texture") & (everybody["split"] == "test")]
    assert chosen.tolist() == rows["sample"].tolist()
    domain = int((index["domain"] == "texture").sum())
    assert len(chosen) == int(0.2 * domain) // 2
    assert chosen.tolist() == assemble(run, data, CPU)[0].evaluator._target[0][2].tolist()
    train(Workspace(project), run, Machine(CPU))
    done(fedshift(project, "evaluate", run.run_id, "fedbn"))
    done(fedshift(project, "evaluate", run.run_id, "fedbn", "--full-domain"))
    counted = {
        read_result(path)[1]["task"]["images"]: read_result(path)[0]["n"][0].as_py()
        for path in results(project)
    }
    assert counted == {"tested": len(chosen), "full_domain": domain}
    assert len(load(Workspace(project), whole).targets[0]) == domain


def test_a_run_of_another_partition_is_refused(copied):
    """As where a scheme divides the images otherwise, and its version was not raised."""
    run = spec("fedavg")
    directory, there = directory_of(copied, run), Workspace(copied)
    partition(there, other := spec("fedavg", partition={"fractions": [0.7, 0.2, 0.1]}))
    shutil.copy(there.partition(other.partition_name), there.partition(run.partition_name))
    asked = fedshift(copied, "evaluate", directory.name, "fedbn")
    refused(asked, "was trained on another partition than is here now", "Delete its directory")
    assert not results(copied)


def test_batches_keep_their_order_and_leave_out_a_single_image():
    samples, *_ = toys.images(3)
    index = torch.arange(40, 53)
    run = Trained(**dict.fromkeys(Trained.__dataclass_fields__) | {"samples": samples})
    first, again = (list(unlabelled(run, index, 6)) for _ in range(2))
    assert [len(x) for x in first] == [6, 6] and [len(x) for x in unlabelled(run, index, 5)] == [5, 5, 3]
    assert torch.equal(torch.cat(first), samples.evaluate(samples.take(index[:12])[0]))
    assert torch.equal(torch.cat(first), torch.cat(again))


def test_what_cannot_be_adapted_says_why(copied):
    directory = directory_of(copied, spec("fedavg"))
    run = directory.name
    last = "fedbn", "--select", "last"
    for words, *said in (
        (("fdse",), "no DSE module to adapt", "run of the method fdse"),
        (("fedbn", "--param", "epoch=2"), "unknown key 'epoch'", "'epochs'"),
        (("fedbn", "--param", "epochs"), "has no '='"),
    ):
        refused(fedshift(copied, "evaluate", run, *words), *said)
    file = directory / json.loads((directory / "summary.json").read_text())["weights"]["last"]
    entries = load_file(file)
    entries["shared/head.bias"] += 1
    save_file(entries, file)
    refused(fedshift(copied, "evaluate", run, *last), "has been changed since the run")
    file.unlink()
    refused(fedshift(copied, "evaluate", run, *last), "is not there", "pulled come without")
    assert results(copied) == []


def test_runs_without_weights_or_target_are_refused(project):
    nothing = trained(project, spec("fedavg", evaluation={"keep": "none"}, federation={"rounds": 0}))
    refused(
        fedshift(project, "evaluate", nothing.name, "fedbn"), "saved no weights", "evaluation.keep: post_agg"
    )
    none = trained(project, spec("fedavg", data={"target": None}, federation={"rounds": 0}))
    refused(fedshift(project, "evaluate", none.name, "fedbn"), "holds out no domain to adapt to")
    both = nothing.name[0] if nothing.name[0] == none.name[0] else ""
    refused(
        fedshift(project, "evaluate", both, "fedbn"), "begins several finished runs", nothing.name, none.name
    )
