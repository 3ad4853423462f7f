"""Load: each file is read once, and what a run gets is what its files say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fedshift.common.errors import FedshiftError
from fedshift.common.files import sha256
from fedshift.data.load import load
from fedshift.data.partition import load_partition, partition
from fedshift.data.prepare import load_prepared
from fedshift.experiments.task import Task
from fedshift.spec import RunSpec, parse
from fedshift.spec.resolve import resolve
from fedshift.storage.workspace import Workspace
from fedshift.training.evaluate import evaluate
from fedshift.training.run import Machine, train
from tests.data.opened import opened

CPU = torch.device("cpu")


def spec_of(method: str = "fedavg", target: object = "texture", **blocks: Any) -> RunSpec:
    hp = {"space": "rgb", "styles": 1} if method == "ccst" else {}
    return resolve(
        parse(
            {
                "data": {"dataset": "digits", "target": target},
                "model": {"name": "digits_cnn"},
                "method": {"name": method, "params": hp},
                "local": {"batch": 64, "lr": 0.05},
                "federation": {"rounds": 1},
                **blocks,
            },
            "test",
        )
    )


@pytest.mark.parametrize("method", ["fedavg", "ccst"])
def test_a_run_and_its_evaluations_read_each_file_once(project: Path, method: str) -> None:
    """By `open` calls as the kernel counts them: of a run, with a rendering too, and of one that finds its images rendered."""
    workspace, spec = Workspace(project), spec_of(method)
    path = partition(workspace, spec)
    folders, once = (
        [workspace.prepared(spec.data.prepared_name), path.parent],
        {"prepared.json": 1, "index.parquet": 1, path.name: 1},
    )
    with opened(folders) as first:
        train(workspace, spec, Machine(CPU))
    assert {name: count for name, count in first.items() if name != "images.npy"} == once
    assert first["images.npy"] <= 3  # hashed once a process; NumPy opens it for its header, and for the map
    run = workspace.run(spec.run_name)
    with opened(folders) as second:
        evaluate(workspace, run.path, [Task("fedbn", {}), Task("confusion", {})], CPU)
    assert {name: count for name, count in second.items() if name != "images.npy"} == once
    if method == "ccst":
        with opened([workspace.rendered(spec.rendered_name)]) as rendered:
            load(workspace, spec)
        assert rendered["index.parquet"] == rendered["rendered.json"] == 1


def test_run_gets_what_its_files_say(project: Path) -> None:
    workspace = Workspace(project)
    spec = spec_of(target=["texture", "ink"], partition={"target_split": "client"})
    path = partition(workspace, spec)
    prepared = load_prepared(workspace.prepared(spec.data.prepared_name))
    table, content = load_partition(path, prepared.index)
    data = load(workspace, spec)
    assert data.images.shape == (1797, 32, 32, 3) and data.classes == list("0123456789")
    assert np.array_equal(data.images.numpy(), prepared.pixels)
    assert data.labels.tolist() == prepared.index["label"].tolist()
    assert [client.domains for client in data.clients] == [("plain",), ("outline",)]
    for k, client in enumerate(data.clients):
        for name in ("train", "val", "test"):
            held = table[(table["client"] == k) & (table["split"] == name)]
            assert client.split(name).tolist() == held["sample"].tolist()
    for domain, tested, unheld in zip(("texture", "ink"), data.targets, data.unheld, strict=True):
        whole = table[table["domain"] == domain]
        assert tested.tolist() == whole.loc[whole["split"] == "target", "sample"].tolist()
        assert unheld.tolist() == whole["sample"].tolist()
        assert 0 < len(tested) < len(unheld) / 5
    facts = prepared.facts
    assert data.hashes == {"prepared": sha256(facts["images"] + facts["index"]), "partition": content}


def test_a_client_without_training_samples_is_refused(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace, spec = Workspace(project), spec_of(partition={"fractions": [0.1, 0.9, 0.0]})
    path = partition(workspace, spec)

    def emptied(*given: Any) -> Any:
        table, content = load_partition(*given)
        table.loc[(table["client"] == 1) & (table["split"] == "train"), "split"] = "val"
        return table, content

    monkeypatch.setattr("fedshift.data.load.load_partition", emptied)
    with pytest.raises(FedshiftError, match="client 1 has no training sample") as error:
        load(workspace, spec)
    assert str(path) in str(error.value)
