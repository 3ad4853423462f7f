"""How far each data set has come in a project: absent, raw, verified, prepared, partitioned."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from fedshift.workspace import Workspace


def states(workspace: Workspace, name: str, embedded: bool) -> dict[str, str]:
    """Release -> state, for every release of data set `name` that has left a trace in the project; empty: absent.

    Reads names, stamps and Parquet footers, no images: whether a stamp is still true `fedshift verify` tells.
    """
    found: dict[str, str] = {"original": "embedded"} if embedded else {}
    raw = workspace.root / "data" / "raw" / name
    for path in sorted(raw.iterdir()) if raw.is_dir() else []:
        if path.is_dir() and not path.name.startswith(".") and not path.name.endswith(".archives"):
            found[path.name] = "verified" if path.with_name(f"{path.name}.verified.json").is_file() else "raw"
    pixels: dict[str, set[int]] = {}
    for release, px in _prepared(workspace.root / "data" / "prepared" / name):
        pixels.setdefault(release, set()).add(px)
    for release, sizes in pixels.items():
        found[release] = f"{_and(found, release)}prepared ({', '.join(map(str, sorted(sizes)))} px)"
    divided: dict[str, int] = {}
    for release in _partitioned(workspace.root / "data" / "partitions" / name):
        divided[release] = divided.get(release, 0) + 1
    for release, number in divided.items():
        found[release] = f"{_and(found, release)}partitioned ({number})"
    return found


def _and(found: dict[str, str], release: str) -> str:
    return f"{found[release]}, " if release in found else ""


def _prepared(folder: Path) -> Iterator[tuple[str, int]]:
    for path in sorted(folder.glob("*/prepared.json")):
        facts = json.loads(path.read_text())
        yield facts["release"], facts["prepare"]["px"]


def _partitioned(folder: Path) -> Iterator[str]:
    paths = sorted(folder.glob("*.parquet"))
    if paths:
        import pyarrow.parquet as pq

        from fedshift.data.columns import KEY

        for path in paths:
            yield json.loads(pq.read_schema(path).metadata[KEY])["data"]["release"]
