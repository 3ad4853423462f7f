"""How far a data set has come in a project: absent, raw, verified, prepared, partitioned."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import Literal

from fedshift.common.errors import FedshiftError
from fedshift.common.files import read_whole
from fedshift.common.registry import get
from fedshift.data.dataset import Dataset
from fedshift.data.verify import stamped
from fedshift.storage.workspace import Workspace

WORDS = {"embedded": "comes with its library", "raw": "raw (not verified)"}


@dataclass(frozen=True)
class State:
    """Where one release of a data set stands; as text: "verified, 9,991 files, prepared (64, 256 px)".

    Attributes:
        raw: "embedded" in a library, "absent", "raw" (not verified by the present manifest) or "verified".
        files: how many a verified tree has; 0 for any other.
        prepared: sides of decoded images in pixels, ascending.
    """

    raw: Literal["embedded", "absent", "raw", "verified"]
    files: int = 0
    prepared: tuple[int, ...] = ()

    def __str__(self) -> str:
        text = [WORDS.get(self.raw, self.raw)]
        text += [f"{self.files:,} files"] if self.files else []
        text += [f"prepared ({', '.join(map(str, self.prepared))} px)"] if self.prepared else []
        return ", ".join(text)


def states(workspace: Workspace, name: str) -> dict[str, State]:
    """Release -> state, for every release of data set `name` that is declared or has images here.

    Reads names and stamps, no images: whether a stamp is still true `fedshift verify` tells.
    """
    dataset = get("datasets", name)
    sizes: dict[str, set[int]] = {}
    for path in sorted((workspace.root / "data" / "prepared" / name).glob("*/prepared.json")):
        if facts := read_whole(path):
            sizes.setdefault(facts["release"], set()).add(facts["prepare"]["px"])
    trees = sorted((workspace.root / "data" / "raw" / name).glob("*/"))
    raw = [tree.name for tree in trees if tree.name[0] != "." and tree.suffix != ".archives"]
    return {
        release: _state(workspace, dataset, release, tuple(sorted(sizes.get(release, ()))))
        for release in dict.fromkeys([*dataset.releases, *raw, *sizes])
    }


def _state(workspace: Workspace, dataset: type[Dataset], release: str, prepared: tuple[int, ...]) -> State:
    if dataset.embedded:
        return State("embedded", prepared=prepared)
    if not workspace.raw(dataset.name, release).exists():
        return State("absent", prepared=prepared)
    try:
        manifest = stamped(workspace, dataset.name, release)
    except FedshiftError:  # no manifest
        manifest = None
    return State("verified" if manifest else "raw", manifest["files"] if manifest else 0, prepared)


def partitions(workspace: Workspace, name: str) -> Counter[str]:
    """Release -> how many partitions of data set `name` there are, from the footers of their files."""
    import pyarrow.parquet as pq

    from fedshift.common.parquet import KEY

    paths = sorted((workspace.root / "data" / "partitions" / name).glob("*.parquet"))
    return Counter(json.loads(pq.read_schema(path).metadata[KEY])["data"]["release"] for path in paths)
