"""Partition: the client of each sample, and its use for training, validation or test."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedshift.common.errors import Damaged, FedshiftError, check_known
from fedshift.common.parquet import columns_hash, read_columns, write_columns
from fedshift.common.registry import get
from fedshift.data.groups import grouped
from fedshift.data.plots import plot_partition
from fedshift.data.prepare import load_index
from fedshift.data.scheme import Scheme, generator, permutation
from fedshift.spec.block import params
from fedshift.spec.settings import Division, Source
from fedshift.storage.workspace import Workspace

MINIMUM = 2  # batch normalisation cannot train on one sample
Words = NDArray[np.object_]
OFFICIAL = {"train": "train", "crossval": "val", "val": "val", "test": "test"}
CURE = "Run: snakemake --profile profiles/local partitions (one alone: fedshift partition --help)"


def partition(workspace: Workspace, spec: Division) -> Path:
    """Write the partition that `spec` requires, with a plot next to it; return its path.

    Reads the prepared index. A file that exists is checked and returned. Its facts (`read_columns`) are the
    settings and:

    - `hash`: SHA-256 of its columns, compared with the columns
    - `twins`: number of images of other domains that are byte-identical to tested images of a held-out one;
      with `groups: together` no client has these

    Raises FedshiftError in these cases:

    - the target is unknown, or none of its images is tested
    - a client has fewer than two training samples
    - a random split gives no client a validation image
    """
    path = workspace.partition(spec.partition_name)
    index = load_index(workspace.prepared(spec.data.prepared_name))
    if not path.exists():
        groups = spec.partition.groups
        table = divide(index if isinstance(groups, str) else grouped(index, groups, workspace.root), spec)
        plot_partition(table, path.with_suffix(".png"))
        parts: dict[str, Any] = {"data": set(Source.model_fields), "partition": True, "seed": True}
        facts = spec.model_dump(mode="json", include=parts)
        count = int(_twins(table["split"].to_numpy(), index, spec.data.held_out).sum())
        write_columns(path, table, {**facts, "twins": count, "index": _of(index)})
    load_partition(path, index)
    return path


def load_partition(path: Path, index: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """The partition's table and the SHA-256 of its columns.

    The columns are sample, client, domain, class, label and split, row by row as in the prepared `index`. If
    a modifier made classes rare, attrs["few_shot"] has the labels of those classes for every client.

    Raises Damaged if the columns do not match their hash or were made for another index.
    """
    table, facts = read_columns(path, CURE)
    same = ["sample", "domain", "class", "label"]
    other = "index" in facts and facts["index"] != _of(index)
    if other or not table[same].equals(index[same]):
        raise Damaged(path, "was made for other data", f"Delete it. {CURE}")
    return table, str(facts["hash"])


def _of(index: pd.DataFrame) -> str:
    """SHA-256 of what a partition reads of a prepared index, in addition to its own columns."""
    return columns_hash(index[["path", "split", "group"]])


def divide(index: pd.DataFrame, spec: Division) -> pd.DataFrame:
    """The partition of `index` as a table: client -1 with split `target` (held-out domain) or `unused`.

    With `groups: together` no client has an image that is byte-identical to a tested image of a held-out
    domain. With a pattern or a file of groups, the index has been `grouped`. Then no client has an image of a
    tested group either. A group that several clients have has one split, that of its first image.
    """
    where, held_out, seed = f"partition of {spec.data.dataset}", spec.data.held_out, spec.seed
    plugin = get("partitions", spec.partition.scheme)
    scheme: Scheme = plugin(params(plugin, spec.partition.params, f"{where}: params"))
    domains = list(dict.fromkeys(index["domain"]))
    for target in held_out:
        check_known(f"{where}: target", "domain", target, domains)
    sources = [domain for domain in domains if domain not in held_out]
    if not sources:
        what = "no source domain is left"
        raise FedshiftError(f"{where}: target", what, "Hold out fewer domains, or none: target: null.")
    scheme.params.check(len(sources), f"{where}: params")
    words, group = index["split"].to_numpy(), index["group"].to_numpy()
    client = scheme.assign(index, sources, generator(seed, scheme.name))
    split = np.where(index["domain"].isin(held_out), "target", "unused").astype(object)
    if spec.partition.target_split != "all":
        split[(split == "target") & (_tests(index, spec) != "test")] = "unused"
    if spec.partition.groups != "apart":
        # copies in one domain are all at the client of the first of them
        first = pd.Series(client).groupby([index["domain"].to_numpy(), group]).transform("first")
        client = np.where(group >= 0, first.to_numpy(), client)
        left_out = _twins(split, index, held_out)
        client[left_out], split[left_out] = -1, "unused"
    parts: dict[Any, Any] = index.groupby([client, "domain"]).indices
    for (holder, domain), part in parts.items():
        if holder >= 0:
            rng = generator(seed, "split", domain, holder)
            split[part] = _split(words[part], group[part], spec, rng, where)
    if not isinstance(spec.partition.groups, str):
        first = pd.Series(split).where(client >= 0).groupby(group).transform("first")
        split = np.where(client >= 0, first.to_numpy(), split)
    elif spec.partition.groups == "together" and spec.partition.split == "official":
        first = pd.Series(split).groupby([client, index["domain"].to_numpy(), group]).transform("first")
        split = np.where((client >= 0) & (group >= 0), first.to_numpy(), split)
    table = index[["sample", "domain", "class", "label"]].assign(split=split.astype(str))
    table.insert(1, "client", client)
    for name, overrides in spec.partition.modify.items():
        kind = get("modifiers", name, f"{where}: modify")
        hp = params(kind, overrides, f"{where}: modify.{name}")
        hp.check(domains, int(index["label"].max()) + 1, f"{where}: modify.{name}")
        kind(hp).modify(table, generator(seed, name))
    if spec.partition.groups != "apart":
        # a tested image that is byte-identical to one that a modifier gave to a client
        copied = np.isin(group, np.unique(group[(table["client"] >= 0) & (group >= 0)]))
        table.loc[(table["split"] == "target") & copied, "split"] = "unused"
    _check(table, scheme.clients(len(sources)), spec, where)
    return table


def _twins(split: Words, index: pd.DataFrame, held_out: tuple[str, ...]) -> NDArray[np.bool_]:
    """Mask [n] of images that are byte-identical to a tested image of another, held-out domain.

    Of two held-out domains, the second's copies of the first's images count, the first's copies of the
    second's do not.
    """
    domain, group = index["domain"].to_numpy(), index["group"].to_numpy()
    mask = np.zeros(len(index), dtype=bool)
    for place, target in enumerate(held_out):
        tested = np.unique(group[(split == "target") & (domain == target) & ~mask])
        elsewhere = ~np.isin(domain, held_out[: place + 1])
        mask |= elsewhere & (group >= 0) & np.isin(group, tested)
    return mask


def _tests(index: pd.DataFrame, spec: Division) -> pd.Series[str]:
    """The split by which `target_split` chooses tested images: official, or with each domain as a client."""
    if spec.partition.target_split == "test":
        return index["split"]
    alone = {"scheme": "domain_per_client", "params": {}, "target_split": "all", "modify": {}}
    data = spec.data.model_copy(update={"target": None})
    parts = spec.partition.model_copy(update=alone)
    return divide(index, spec.model_copy(update={"data": data, "partition": parts}))["split"]


def _split(words: Words, group: NDArray[np.int32], spec: Division, rng: np.random.PCG64, where: str) -> Words:
    """The split of a client's samples of one domain: random, or by their official `words` [n]."""
    if spec.partition.split == "random":
        alone = np.full_like(group, -1)
        together = spec.partition.groups != "apart"
        return random_split(spec.partition.fractions, rng, group if together else alone)
    if without := sum(str(word) not in OFFICIAL for word in words):
        what = f"no official split: {without} of {len(words)} samples are on no list"
        raise FedshiftError(where, what, "Use partition.split: random, or a data set with official lists.")
    return np.array([OFFICIAL[str(word)] for word in words], dtype=object)


def _check(table: pd.DataFrame, clients: int, spec: Division, where: str) -> None:
    """Raise FedshiftError for a partition that is not sufficient for training, selection or testing."""
    client, split = table["client"].to_numpy(), table["split"]
    held = np.bincount(client[client >= 0], minlength=clients)
    trained = np.bincount(client[(client >= 0) & (split == "train")], minlength=clients)
    if (poor := np.flatnonzero(trained < MINIMUM)).size:
        first = int(poor[0])
        what = f"has {trained[first]} training of {held[first]} samples" if held[first] else "is empty"
        cure = "Use fewer clients, or a larger share for training."
        raise FedshiftError(where, f"client {first} {what}; {MINIMUM} are the least", cure)
    for target in spec.data.held_out:
        if not ((split == "target") & (table["domain"] == target)).any():
            cure = "Test all its images: partition.target_split: all."
            raise FedshiftError(where, f"no image of the held-out domain '{target}' is tested", cure)
    if spec.partition.split == "random" and not (split == "val").any():
        what = "no client has a validation image, by which rounds are chosen"
        cure = "Use fewer clients, or a larger validation part: partition.fractions."
        raise FedshiftError(where, what, cure)


def random_split(
    fractions: tuple[float, float, float], rng: np.random.PCG64, group: NDArray[np.int32]
) -> Words:
    """Split the n samples of `group` [n] at random into train, val and test.

    int((val + test) n) are held out; of these int(that test / (val + test)) are test, the rest validation
    (FLGo). Samples of one group (-1: none) stay together: a part is full when it has its number or more.
    """
    n, (val, test) = len(group), (Fraction(str(fraction)) for fraction in fractions[1:])
    held = int((val + test) * n)
    tested = int(held * test / (val + test)) if held else 0
    split = np.full(n, "train", dtype=object)
    order = permutation(rng, n)
    if (group >= 0).any():
        # the samples of a group follow its first one, and parts end where a group ends
        unit = pd.factorize(np.where(group >= 0, group, -1 - np.arange(n))[order])[0]
        order = order[np.argsort(unit, kind="stable")]
        ends = np.flatnonzero(np.diff(np.sort(unit), prepend=-1, append=n))
        tested, held = ends[np.searchsorted(ends, (tested, held))]
    split[order[:held]] = "val"
    split[order[:tested]] = "test"
    return split
