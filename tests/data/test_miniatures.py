"""Every data set: a miniature in each accepted raw layout goes from a web server to a trained model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from fedshift.common.errors import FedshiftError
from fedshift.common.registry import get
from fedshift.data.dataset import Archive
from fedshift.data.fetch import fetch
from fedshift.data.partition import load_partition, partition
from fedshift.data.prepare import load_index, prepare
from fedshift.data.verify import verify, write_manifest
from fedshift.spec import Prepare, RunSpec, parse
from fedshift.spec.resolve import resolve
from fedshift.storage.workspace import Workspace
from fedshift.training.run import Machine, train
from tests.data.miniatures import LAYOUTS, Layout, Members, official
from tests.data.server import Server, zipped

PX = Prepare(px=16)


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_from_the_server_to_a_trained_model(
    layout: Layout, workspace: Workspace, tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    content, dataset = layout.build(), get("datasets", layout.name)
    serve(layout, content, server, monkeypatch)
    lists = official(tmp_path / "lists", content, layout.listed) if layout.listed else None
    raw = fetch(workspace, layout.name, layout.release, lists=lists, say=lambda _: None)
    assert not [path for path in raw.parent.iterdir() if path.name.startswith(".")]
    facts = dataset.releases[layout.release]
    if facts.counts or facts.complete:
        with pytest.raises(FedshiftError, match="is not what was published"):
            verify(workspace, layout.name, layout.release)
    write_manifest(workspace, layout.name, layout.release, accept=True)
    verify(workspace, layout.name, layout.release)

    index = load_index(prepare(workspace, layout.name, layout.release, PX, jobs=1))
    assert len(index) == layout.images
    assert set(index["split"]) == layout.words
    assert tuple(index["domain"].unique()) == dataset.domains

    target, *sources = dataset.domains
    spec = spec_of(layout, target)
    table, _ = load_partition(partition(workspace, spec), index)
    assert set(table["client"]) == {-1, *range(len(sources))}
    summary = train(workspace, spec, Machine(torch.device("cpu")))
    assert [client["domains"] for client in summary["clients"]] == [[domain] for domain in sources]
    assert tuple(summary["classes"]) == dataset().domains_and_classes(raw)[1]
    assert set(summary["hashes"]) >= {"prepared", "partition", "weights_last"}
    metrics = metrics_of(workspace, spec)
    assert set(metrics["round"]) == {0, 1}
    assert np.isfinite(metrics["value"]).all()
    assert len(metrics.query("stage == 'train' and metric == 'loss'")) == len(sources)
    assert set(metrics.query("split == 'target'")["n"]) == {(index["domain"] == target).sum()}


def serve(layout: Layout, content: Members, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put an archive where the release looks for it; the project has no manifest for that."""
    server.content = zipped(content)
    dataset = get("datasets", layout.name)
    here = {"archives": (Archive(server.url, "this test"),), "manifest": None}
    facts = replace(dataset.releases[layout.release], **here)
    monkeypatch.setattr(dataset, "releases", {**dataset.releases, layout.release: facts})


def spec_of(layout: Layout, target: str) -> RunSpec:
    """One round of FedAvg, by the official split where every image has one."""
    split = {"split": "random" if "" in layout.words else "official"}
    value: dict[str, Any] = {
        "data": {"dataset": layout.name, "release": layout.release, "target": target, "prepare": {"px": PX.px}, "input_px": PX.px},
        "partition": {"fractions": [0.5, 0.25, 0.25], **split},
        "model": {"name": "digits_cnn"},
        "method": {"name": "fedavg"},
        "local": {"batch": 32, "lr": 0.1},
        "federation": {"rounds": 1},
    }  # fmt: skip
    return resolve(parse(value, "test"))


def metrics_of(workspace: Workspace, spec: RunSpec) -> pd.DataFrame:
    return pd.read_parquet(workspace.run(spec.run_name).path / "metrics.parquet")
