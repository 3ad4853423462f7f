"""Puts a run together: prepared images, a partition, a model and a method become a Federation."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fedshift.build import method_of, model_of, rendering_of
from fedshift.data.augment import Augment, Evaluate
from fedshift.data.partition import load_partition, partition_hash
from fedshift.data.prepare import load, verify_prepared
from fedshift.data.rendering import load_rendered, render
from fedshift.errors import FedshiftError
from fedshift.federation.loop import Federation
from fedshift.federation.samples import ClientData, Samples
from fedshift.files import sha256
from fedshift.identity import partition_name, prepared_name
from fedshift.models.base import Model
from fedshift.pretrained import read
from fedshift.spec import RunSpec
from fedshift.workspace import Workspace


def assemble(
    workspace: Workspace, spec: RunSpec, device: torch.device
) -> tuple[Federation, dict[str, str], list[str]]:
    """The Federation of a resolved spec on prepared data, the content hashes of its images, its partition and of published weights, and its classes.

    Raises FedshiftError where these are absent, changed, or leave a client without samples.
    """
    folder, divided = workspace.prepared(prepared_name(spec.data)), workspace.partition(partition_name(spec))
    facts = verify_prepared(folder)
    pixels, index = load(folder)
    partition = load_partition(divided, index)
    hashes = {
        "prepared": sha256(facts["images"] + facts["index"]),
        "partition": partition_hash(divided),
    }
    sample, owner, split = (partition[column].to_numpy() for column in ("sample", "client", "split"))

    def chosen(rows: NDArray[np.bool_]) -> torch.Tensor:
        return torch.from_numpy(sample[rows].astype("int64"))

    def positions(client: int, name: str) -> torch.Tensor:
        return chosen((owner == client) & (split == name))

    clients, count = [], int(owner.max()) + 1
    few_shot = partition.attrs.get("few_shot", [()] * count)
    for k in range(count):
        train, val, test = (positions(k, name) for name in ("train", "val", "test"))
        domains = tuple(partition["domain"][owner == k].unique())
        clients.append(ClientData(train, val, test, domains, tuple(few_shot[k])))
        if not len(clients[k].train):
            raise FedshiftError(
                divided,
                f"client {k} has no training sample",
                "Use fewer clients or a larger fraction.",
            )
    images, labels = mapped(pixels), torch.from_numpy(index["label"].to_numpy().astype("int64"))
    if rendering := rendering_of(spec):
        rendered, samples_of, hashes["rendered"] = load_rendered(render(workspace, spec, rendering))
        clients = [replace(one, train=_rendered_of(one.train, samples_of, len(images))) for one in clients]
        images = torch.cat([images, torch.from_numpy(rendered)])
        labels = torch.cat([labels, labels[torch.from_numpy(samples_of)]])
    classes, data = list(facts["classes"]), spec.data

    def build() -> Model:
        return model_of(spec, len(classes))

    augment = Augment(data.augment, data.prepare.px, data.input_px, data.normalise)
    evaluate = Evaluate(data.prepare.px, data.input_px, data.normalise)
    samples = Samples(images, labels, augment, evaluate, evaluate.mean, evaluate.deviation, device)
    options: dict[str, Any] = {}
    if spec.model.init != "scratch":
        with torch.device("meta"):
            plain = build()
        weights = read(plain, spec.model.init)
        hashes["start"], options["start"] = weights.sha256, weights.start
    held_out = [
        chosen((split == "target") & (partition["domain"] == name).to_numpy()) for name in data.held_out
    ]
    federation = Federation(spec, method_of(spec), build, samples, clients, held_out, **options)
    return federation, hashes, classes


def mapped(pixels: NDArray[np.uint8]) -> torch.Tensor:
    """A tensor over a read-only memory map: it is read from, never written to."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The given NumPy array is not writable", UserWarning)
        return torch.from_numpy(pixels)


def _rendered_of(train: torch.Tensor, samples_of: NDArray[np.int64], offset: int) -> torch.Tensor:
    """Positions of the images that were rendered from the training samples `train`, behind `offset` others."""
    return torch.from_numpy(np.flatnonzero(np.isin(samples_of, train.numpy()))) + offset
