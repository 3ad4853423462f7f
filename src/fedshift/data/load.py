"""Load: a run's images, labels, clients and held-out domains; each file is read and hashed once."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedshift.build import rendering_of
from fedshift.common.errors import FedshiftError
from fedshift.data.partition import load_partition
from fedshift.data.prepare import load_prepared, prepared_hash
from fedshift.data.rendered import load_rendered, render
from fedshift.federation.samples import ClientData
from fedshift.identity import partition_name, prepared_name, rendered_name
from fedshift.spec import RunSpec
from fedshift.storage.workspace import Workspace


@dataclass(frozen=True)
class RunData:
    """What a run trains and tests on. Positions are rows of `images`, int64, ascending.

    Attributes:
        images: uint8 [n, px, px, 3] in RGB; a read-only memory map where nothing is rendered.
        labels: int64 [n].
        clients: the positions that each client holds, by split.
        targets: for each held-out domain, the positions that the run tests.
        unheld: for each held-out domain, the positions that no client holds, tested or not.
        classes: their names; a label is a place among them.
        absent: domain -> the classes of which it has no image; domains with all classes are left out.
        hashes: of the content: "prepared", "partition", and "rendered" where the method renders images.
    """

    images: Tensor
    labels: Tensor
    clients: list[ClientData]
    targets: list[Tensor]
    unheld: list[Tensor]
    classes: list[str]
    absent: dict[str, list[str]]
    hashes: dict[str, str]


def load(workspace: Workspace, spec: RunSpec) -> RunData:
    """The data of a resolved spec; images that its method renders are rendered now, if they do not exist.

    Raises FedshiftError where files are absent or do not match their hashes, or a client trains on nothing.
    """
    folder = workspace.prepared(prepared_name(spec.data))
    prepared, path = load_prepared(folder), workspace.partition(partition_name(spec))
    partition, content = load_partition(path, prepared.index)
    hashes = {"prepared": prepared_hash(prepared.facts), "partition": content}
    sample, owner, split = (partition[column].to_numpy() for column in ("sample", "client", "split"))

    def positions(rows: NDArray[np.bool_]) -> Tensor:
        return torch.from_numpy(sample[rows].astype("int64"))

    clients, count = [], int(owner.max()) + 1
    few_shot = partition.attrs.get("few_shot", [()] * count)
    for k in range(count):
        train, val, test = (positions((owner == k) & (split == name)) for name in ("train", "val", "test"))
        if not len(train):
            cure = "Use fewer clients or a larger fraction."
            raise FedshiftError(path, f"client {k} has no training sample", cure)
        domains = tuple(partition["domain"][owner == k].unique())
        clients.append(ClientData(train, val, test, domains, tuple(few_shot[k])))
    images = mapped(prepared.pixels)
    labels = torch.from_numpy(prepared.index["label"].to_numpy().astype("int64"))
    if rendering := rendering_of(spec):
        sources = {"prepared": prepared.facts["images"], "partition": content}
        folder = render(
            workspace.rendered(rendered_name(spec)), rendering, prepared.pixels, partition, spec.seed, sources
        )
        rendered, samples_of, hashes["rendered"] = load_rendered(folder)
        clients = [
            replace(client, train=_rendered_of(client.train, samples_of, len(images))) for client in clients
        ]
        images = torch.cat([images, torch.from_numpy(rendered)])
        labels = torch.cat([labels, labels[torch.from_numpy(samples_of)]])
    held_out = [(partition["domain"] == name).to_numpy() for name in spec.data.held_out]
    return RunData(
        images=images,
        labels=labels,
        clients=clients,
        targets=[positions(domain & (split == "target")) for domain in held_out],
        unheld=[positions(domain & (owner < 0)) for domain in held_out],
        classes=(classes := list(prepared.facts["classes"])),
        absent=_absent(prepared.index, classes),
        hashes=hashes,
    )


def _absent(index: pd.DataFrame, classes: list[str]) -> dict[str, list[str]]:
    """Domain -> the classes of which it has no image."""
    present = index.groupby("domain", sort=False)["class"].agg(set)
    lacking = {domain: [name for name in classes if name not in held] for domain, held in present.items()}
    return {str(domain): names for domain, names in lacking.items() if names}


def mapped(pixels: NDArray[np.uint8]) -> Tensor:
    """A tensor over a read-only memory map: it is read from, never written to."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The given NumPy array is not writable", UserWarning)
        return torch.from_numpy(pixels)


def _rendered_of(train: Tensor, samples_of: NDArray[np.int64], offset: int) -> Tensor:
    """Positions of the images that were rendered from the samples `train`, behind `offset` others."""
    return torch.from_numpy(np.flatnonzero(np.isin(samples_of, train.numpy()))) + offset
