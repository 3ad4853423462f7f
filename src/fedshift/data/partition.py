"""Partition: who holds which sample, and whether for training, validation or test."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedshift.data.columns import read_columns, write_columns
from fedshift.data.plots import plot_partition
from fedshift.data.prepare import load_index
from fedshift.data.scheme import Scheme, generator
from fedshift.data.split import Words, official_split, random_split
from fedshift.errors import FedshiftError, unknown
from fedshift.registry import get
from fedshift.resolve import params
from fedshift.spec import Division, Source
from fedshift.workspace import Workspace

MINIMUM = 2  # batch normalisation cannot train on one sample
CURE = "Run: fedshift partition"


def partition(workspace: Workspace, spec: Division) -> Path:
    """Write the partition that `spec` asks for, with a plot beside it; return its path.

    Reads the prepared index. A file that exists is checked and
    returned. Raises FedshiftError for an unknown target, a client without samples and one with fewer than two
    training samples.
    """
    path = workspace.partition(spec)
    index = load_index(workspace.prepared(spec.data))
    if not path.exists():
        table = divide(index, spec)
        plot_partition(table, path.with_suffix(".png"))
        parts: dict[str, Any] = {"data": set(Source.model_fields), "partition": True, "seed": True}
        write_columns(path, table, spec.model_dump(mode="json", include=parts))
    load_partition(path, index)
    return path


def load_partition(path: Path, index: pd.DataFrame) -> pd.DataFrame:
    """Columns sample, client, domain, class, label, split, one row per row of the prepared `index`.

    Raises FedshiftError where the columns do not match their hash or were made for another index.
    """
    table, _ = read_columns(path, CURE)
    same = ["sample", "domain", "class", "label"]
    if not table[same].equals(index[same]):
        raise FedshiftError(path, "was made for other data", f"Delete it. {CURE}")
    return table


def partition_hash(path: Path) -> str:
    """SHA-256 of a partition's columns, compared with the columns as they are."""
    return str(read_columns(path, CURE)[1]["hash"])


def divide(index: pd.DataFrame, spec: Division) -> pd.DataFrame:
    """The partition of `index` as a table: client -1 with split `target` (held-out domain) or `unused`."""
    where, held_out, seed = f"partition of {spec.data.dataset}", spec.data.held_out, spec.seed
    plugin = get("partitions", spec.partition.scheme)
    scheme: Scheme = plugin(params(plugin, spec.partition.params, f"{where}: params"))
    domains = list(dict.fromkeys(index["domain"]))
    for target in held_out:
        if target not in domains:
            raise unknown(f"{where}: target", "domain", target, domains)
    sources = [domain for domain in domains if domain not in held_out]
    scheme.params.check(len(sources), f"{where}: params")
    client = scheme.assign(index, sources, generator(seed, scheme.name))
    if spec.partition.groups == "together":
        client = _reunited(client, index)
    split = np.where(index["domain"].isin(held_out), "target", "unused").astype(object)
    for holder, domain in itertools.product(range(scheme.clients(len(sources))), sources):
        part = np.flatnonzero((client == holder) & (index["domain"] == domain))
        split[part] = _split(index.iloc[part], spec, generator(seed, "split", domain, holder), where)
    if spec.partition.target_split != "all":
        split[(split == "target") & (_tests(index, spec) != "test")] = "unused"
    table = index[["sample", "domain", "class", "label"]].assign(split=split.astype(str))
    table.insert(1, "client", client)
    for name, chosen in spec.partition.modify.items():
        kind = get("modifiers", name, f"{where}: modify")
        made = params(kind, chosen, f"{where}: modify.{name}")
        made.check(domains, int(index["label"].max()) + 1, f"{where}: modify.{name}")
        kind(made).modify(table, generator(seed, name))
    _check(table["client"].to_numpy(), table["split"].to_numpy(), scheme.clients(len(sources)), where)
    return table


def _reunited(client: NDArray[np.int16], index: pd.DataFrame) -> NDArray[np.int16]:
    """Every domain's byte-identical images go to the client of their first."""
    group = [index["domain"].to_numpy(), index["group"].to_numpy()]
    return pd.Series(client).groupby(group).transform("first").to_numpy()


def _tests(index: pd.DataFrame, spec: Division) -> pd.Series[str]:
    """Where the held-out domain's test part is "test": by the official lists, or as if every domain were a client."""
    if spec.partition.target_split == "test":
        return index["split"]
    alone = {"scheme": "domain_per_client", "params": {}, "target_split": "all", "modify": {}}
    everybody = {
        "data": spec.data.model_copy(update={"target": None}),
        "partition": spec.partition.model_copy(update=alone),
    }
    return divide(index, spec.model_copy(update=everybody))["split"]


def _split(part: pd.DataFrame, spec: Division, rng: np.random.PCG64, where: str) -> Words:
    if spec.partition.split == "official":
        return official_split(part["split"].to_numpy(), where)
    group = part["group"].to_numpy() if spec.partition.groups == "together" else None
    return random_split(len(part), spec.partition.fractions, rng, group)


def _check(client: NDArray[np.int16], split: NDArray[np.object_], clients: int, where: str) -> None:
    for number in range(clients):
        held, trained = int((client == number).sum()), int((split[client == number] == "train").sum())
        if trained < MINIMUM:
            what = f"has {trained} training of {held} samples" if held else "is empty"
            cure = "Use fewer clients, or a larger share for training."
            raise FedshiftError(where, f"client {number} {what}; {MINIMUM} are the least", cure)
