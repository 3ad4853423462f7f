"""Load a run's images, labels, clients and held-out domains; each file is read and hashed once.

A method may first render images from the training images into data/rendered/<dataset>/<recipe>/. That folder
has images.npy (uint8 [m, px, px, 3]) and index.parquet (row i: the sample that image i was made from). A run
trains on these in place of the samples' own images; validation and test images do not change.
"""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor
from tqdm import tqdm

from fedshift.common.errors import Damaged, FedshiftError
from fedshift.common.files import built_once, read_json, sha256, sha256_file, write_json
from fedshift.common.parquet import read_columns, write_columns
from fedshift.data.partition import load_partition
from fedshift.data.prepare import load_prepared, prepared_hash
from fedshift.federation.samples import ClientData
from fedshift.spec import RunSpec
from fedshift.storage.workspace import Workspace


@dataclass(frozen=True)
class RunData:
    """Data of a run for training and testing. Positions are rows of `images`, int64, ascending.

    - images: uint8 [n, px, px, 3] in RGB; a read-only memory map if nothing is rendered
    - labels: int64 [n]
    - clients: positions of each client's samples, by split
    - targets: for each held-out domain, the positions that the run tests
    - unheld: for each held-out domain, the positions that belong to no client, tested or not
    - classes: their names, indexed by label
    - absent: domain -> the classes of which it has no image; domains with all classes are left out
    - hashes: of the content: "prepared", "partition", and "rendered" if the method renders images
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

    Concurrent calls for the same images wait for the first. Raises FedshiftError if files, or weights that a
    rendering needs, are absent. It is also raised if files do not match their hashes, or a client has no
    training sample.
    """
    folder = workspace.prepared(spec.data.prepared_name)
    prepared, path = load_prepared(folder), workspace.partition(spec.partition_name)
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
    with warnings.catch_warnings():  # the map is read from, never written to
        warnings.filterwarnings("ignore", "The given NumPy array is not writable", UserWarning)
        images = torch.from_numpy(prepared.pixels)
    labels = torch.from_numpy(prepared.index["label"].to_numpy().astype("int64"))
    if rendering := spec.rendering:
        sources = {"prepared": prepared.facts["images"], "partition": content}
        with built_once(folder := workspace.rendered(spec.rendered_name)) as part:
            if part is not None:
                made = rendering.render(prepared.pixels, partition, spec.seed)
                _write(part, made, prepared.pixels.shape[1], sources)
        rendered, samples_of, hashes["rendered"] = load_rendered(folder, sources)
        for k, client in enumerate(clients):
            places = np.flatnonzero(np.isin(samples_of, client.train.numpy()))
            clients[k] = replace(client, train=torch.from_numpy(places) + len(images))
        images = torch.cat([images, torch.from_numpy(rendered)])
        labels = torch.cat([labels, labels[torch.from_numpy(samples_of)]])
    classes = list(prepared.facts["classes"])
    present = prepared.index.groupby("domain", sort=False)["class"].agg(set)
    absent = {domain: [name for name in classes if name not in held] for domain, held in present.items()}
    held_out = [(partition["domain"] == name).to_numpy() for name in spec.data.held_out]
    targets = [positions(domain & (split == "target")) for domain in held_out]
    unheld = [positions(domain & (owner < 0)) for domain in held_out]
    lacking = {str(domain): names for domain, names in absent.items() if names}
    return RunData(images, labels, clients, targets, unheld, classes, lacking, hashes)


def load_rendered(
    folder: Path, sources: dict[str, str] | None = None
) -> tuple[NDArray[np.uint8], NDArray[np.int64], str]:
    """The rendered images, a memory map [m, px, px, 3]; the sample that each was made from [m]; their hash.

    `sources`: hashes of the decoded images and the partition that they must be made from.

    Raises Damaged if they have changed, or were made from others.
    """
    cure = f"Remove {folder}; the run makes it again."
    table, index = read_columns(folder / "index.parquet", cure)
    facts, images = read_json(folder / "rendered.json", cure) or {}, folder / "images.npy"
    if not facts or facts["index"] != index["hash"] or facts["images"] != sha256_file(images):
        raise Damaged(folder, "does not match its rendered.json", cure)
    if sources and not sources.items() <= facts.items():
        raise Damaged(folder, "was made from other images, or for another partition", cure)
    pixels = np.load(images, mmap_mode="c", allow_pickle=False)
    return pixels, table["sample"].to_numpy(np.int64, copy=True), sha256(facts["images"] + facts["index"])


def _write(part: Path, made: Iterator[tuple[int, NDArray[np.uint8]]], px: int, facts: dict[str, str]) -> None:
    """Write the (sample, image) pairs of a rendering, and rendered.json with their hashes and `facts`."""
    samples: list[int] = []
    images, raw = part / "images.npy", part / "images.raw"
    bar = tqdm(desc="render", unit=" images", disable=None)
    with torch.no_grad(), bar, raw.open("wb") as file:
        for sample, image in made:
            file.write(np.ascontiguousarray(image).data)
            samples.append(sample)
            bar.update()
    np.save(images, np.memmap(raw, np.uint8, "r", shape=(len(samples), px, px, 3)), allow_pickle=False)
    raw.unlink()
    index = pd.DataFrame({"sample": np.array(samples, dtype=np.int32)})
    hashes = {"images": sha256_file(images), "index": write_columns(part / "index.parquet", index, {})}
    write_json(part / "rendered.json", {**hashes, **facts})
