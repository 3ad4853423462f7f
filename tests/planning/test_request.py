"""What params.yaml and slurm/cluster.yaml ask for is checked."""

import re
from pathlib import Path

import pytest
import yaml

from fedshift.common.errors import FedshiftError
from fedshift.experiments.load import available
from fedshift.planning import cluster
from fedshift.planning.cluster import PATH, Cluster
from fedshift.planning.request import Request
from fedshift.storage.workspace import Workspace
from tests.conftest import ROOT


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"experiments": ["one"], "pakc": 1}, "unknown key 'pakc'\n.*'pack'"),
        ({"experiments": []}, "names no experiment"),
        ({"experiments": ["one"], "pack": 0}, "'pack' cannot be 0"),
        ({"experiments": ["one"], "pack": True}, "'pack' cannot be True"),
        (
            {"experiments": ["one"], "hours": 0.5},
            "'hours' cannot be 0.5\n.*Maximum hours that a job requests.*1 or more",
        ),
        ({"experiments": ["one"], "device": "tpu"}, "Valid: cpu, cuda"),
        ({"experiments": ["one"], "graph": "on"}, "'graph' cannot be 'on'\n.*Valid: auto, off"),
    ],
)
def test_parameters_are_checked(config: dict[str, object], message: str) -> None:
    with pytest.raises(FedshiftError, match=message):
        Request.of(config, Path())


SHIPPED = yaml.safe_load((ROOT / "params.yaml").read_text())


def asked(*names: str) -> tuple[str, ...]:
    return Request.of({**SHIPPED, "experiments": list(names)}, ROOT).experiments


@pytest.mark.parametrize("name", SHIPPED["sets"])
def test_every_set_that_is_shipped_names_experiments(name: str) -> None:
    assert set(asked(name)) <= set(available(Workspace(ROOT)))


def test_a_set_and_an_experiment_side_by_side() -> None:
    request = Request.of({"experiments": ["night", "b"], "sets": {"night": ["a", "b"]}}, ROOT)
    assert request.experiments == ("a", "b")
    assert request == Request(("a", "b"))  # what a set is called is no part of a plan


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("text", ["title: x\ntune: {budget: 2}\n", "tune: {budget: 2}\n"])
def test_a_folder_leaves_out_a_tuned_experiment_without_a_choice(
    text: str, encoding: str, tmp_path: Path
) -> None:
    folder = tmp_path / "experiments" / "mine"
    folder.mkdir(parents=True)
    (folder / "tuned.yaml").write_text(text, encoding=encoding)
    (folder / "plain.yaml").write_text("title: y\n")
    assert Request.of({"experiments": ["mine"]}, tmp_path).experiments == ("mine/plain",)


def test_a_set_with_the_name_of_an_experiment() -> None:
    with pytest.raises(FedshiftError, match="the set 'demo' has the name of an experiment"):
        Request.of({"experiments": ["demo"], "sets": {"demo": ["hfedf/table2"]}}, ROOT)


@pytest.mark.parametrize("name", ["hfedf/**", "**", "hf**/table2"])
def test_what_is_no_pattern_is_refused(name: str) -> None:
    """Python 3.13 takes it for a pattern, and ended in a traceback before."""
    with pytest.raises(
        FedshiftError, match=f"experiments: '{re.escape(name)}' is not a pattern\n.*between slashes"
    ):
        asked(name)


def write(root: Path, text: str) -> Path:
    (root / PATH).parent.mkdir()
    (root / PATH).write_text(text)
    return root


def test_keys_that_are_set_become_resources(tmp_path: Path) -> None:
    assert Cluster.read(tmp_path).resources == {}  # no such file
    text = (ROOT / "slurm" / "cluster.example.yaml").read_text()
    assert Cluster.read(write(tmp_path, f"{text}qos: long\n")).resources == {
        "slurm_partition": "gpu",
        "qos": "long",
    }


@pytest.mark.parametrize(
    ("text", "asked"),
    [("", {}), ("gpu_model: a100", {"gpu_model": "a100"}), ("gres: shard:1", {"gres": "shard:1"})],
)
def test_only_jobs_that_compute_on_a_gpu_ask_for_one(
    tmp_path: Path, text: str, asked: dict[str, str]
) -> None:
    """With `gpu_model` the jobs that decode images took one, too."""
    ours = Cluster.read(write(tmp_path, text))
    assert ours.resources == ours.of_gpus("cpu") == {}
    assert ours.of_gpus("cuda") == asked


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gres: shard:1\ngpu_model: a100", "'gres' is part of a GPU"),
        ("slurm_partion: gpu", "slurm/cluster.yaml: unknown key 'slurm_partion'\n.*'slurm_partition'"),
        ("slurm_account: 17", "'slurm_account' cannot be 17\n.*in quotes"),
        ("- gpu", "holds no keys"),
        ("qos: [", "is not YAML"),
    ],
)
def test_a_mistake_is_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(FedshiftError, match=message):
        Cluster.read(write(tmp_path, text))


def test_limits_of_several_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = "short*|1:00:00|8000\nlong|2-00:00:00|16000+\nother|10:00|1\n"
    monkeypatch.setattr(cluster, "answer_of", lambda *words: lines)
    assert cluster.limits("short,long") == (60, 16000)
    assert cluster.limits(None) == (60, 8000) and cluster.limits("long") == (2880, 16000)
