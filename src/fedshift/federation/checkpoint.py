"""A run's checkpoint: one safetensors file, replaced atomically, from which the run resumes bit for bit."""

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from fedshift.common.errors import FedshiftError
from fedshift.common.files import dotted, write_bytes
from fedshift.common.tensors import read_tensors, write_tensors
from fedshift.federation.loop import Federation
from fedshift.federation.records import Table

log = logging.getLogger("fedshift.train")


def save(
    federation: Federation, path: Path, segments: Path, identity: str, seconds: float = 0.0, code: str = ""
) -> None:
    """Write what was recorded since the last checkpoint as segments, then all that the rest of the run needs.

    If the process dies in between, the run resumes from the last checkpoint, and newer segments are deleted.

    seconds: duration of the run so far; code: fingerprint of the method
    """
    segment = f"{federation.records.rows[0]['round']:06d}-{federation.round:06d}.parquet"
    for table, folder in _tables(federation, segments):
        write_bytes(folder / segment, table.pack())
    entries = dict(dotted(federation.state_dict(), "/"))
    tensors = {name: value.contiguous() for name, value in entries.items() if isinstance(value, Tensor)}
    values = {name: value for name, value in entries.items() if not isinstance(value, Tensor)}
    facts = {"values": json.dumps(values), "code": code, "seconds": repr(seconds)}
    write_tensors(path, tensors, {**facts, **_origin(federation, identity)})
    for table, _ in _tables(federation, segments):
        table.rows = []


def resume(federation: Federation, path: Path, segments: Path, identity: str, code: str = "") -> float | None:
    """Restore the checkpoint into a new Federation and return the seconds that the run took until then.

    Returns None if there is no checkpoint, or only one by another version of the method (`code`). Raises
    FedshiftError for a file that is cut short, or from another run or kind of device.
    """
    if not path.exists():
        _keep_until(-1, segments)
        return None
    tensors, metadata = read_tensors(path, "Delete it: the run then starts anew.")
    if metadata["code"] != code:
        log.warning("%s: begun before the method's file changed: this run starts from scratch", path)
        _keep_until(-1, segments)
        return None
    for fact, value in _origin(federation, identity).items():
        if metadata[fact] != value:
            cure = "Move it away; this run then starts from scratch."
            raise FedshiftError(path, f"has {fact} {metadata[fact]}, not {value}", cure)
    federation.load_state_dict(nested({**tensors, **json.loads(metadata["values"])}))
    _keep_until(federation.round, segments)
    return float(metadata["seconds"])


def _origin(federation: Federation, identity: str) -> dict[str, str]:
    """What must be the same when the run resumes; alignment: of rows, by kind of device."""
    layout = federation.layout
    return {"identity": identity, "layout": layout.hash, "alignment": str(layout.alignment)}


def _keep_until(last: int, segments: Path) -> None:
    """Remove the segments that end after round `last`."""
    for segment in segments.rglob("*.parquet"):
        if int(segment.stem.rpartition("-")[2]) > last:
            segment.unlink()


def _tables(federation: Federation, segments: Path) -> list[tuple[Table, Path]]:
    """The tables that the run records, each with the folder of its segments.

    The records are last: if a segment of theirs exists, those of the other tables exist, too.
    """
    logged = [(federation.log.table, segments / "diagnostics")] if federation.method.logs else []
    return [*logged, (federation.statistics, segments / "statistics"), (federation.records, segments)]


def nested(leaves: Mapping[str, Any]) -> dict[str, Any]:
    """The nested dictionary with these leaves, by their names joined by "/"."""
    tree: dict[str, Any] = {}
    for path, value in leaves.items():
        *branches, name = path.split("/")
        at = tree
        for branch in branches:
            at = at.setdefault(branch, {})
        at[name] = value
    return tree
