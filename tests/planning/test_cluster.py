"""slurm/cluster.yaml: resources of the Slurm plugin by name, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedshift.common.errors import FedshiftError
from fedshift.planning.cluster import PATH, Cluster
from tests.conftest import ROOT


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
