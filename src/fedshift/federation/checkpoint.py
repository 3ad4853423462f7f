"""A run's checkpoint: one safetensors file, replaced atomically, from which the run resumes bit for bit."""

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
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
    """Write everything that the rest of the run needs, after a round.

    This also writes the segments of what was recorded since the last checkpoint.

    seconds: duration of the run so far; code: fingerprint of the method
    """
    entries = dict(dotted(federation.state_dict(), "/"))
    tensors = {name: value.contiguous() for name, value in entries.items() if isinstance(value, Tensor)}
    values = {name: value for name, value in entries.items() if not isinstance(value, Tensor)}
    segment = f"{federation.records.rows[0]['round']:06d}-{federation.round:06d}.parquet"
    tables = _tables(federation, segments)
    packed = {name: table.pack() for name, (table, _) in tables.items()}
    tensors |= {name: torch.frombuffer(bytearray(data), dtype=torch.uint8) for name, data in packed.items()}
    metadata = {
        "values": json.dumps(values), "segment": segment, "identity": identity, "code": code,
        "layout": federation.layout.hash, "alignment": str(federation.layout.alignment),
        "seconds": repr(seconds),
    }  # fmt: skip
    write_tensors(path, tensors, metadata)
    for name, (table, folder) in tables.items():
        write_bytes(folder / segment, packed[name])
        table.rows = []


def resume(federation: Federation, path: Path, segments: Path, identity: str, code: str = "") -> float | None:
    """Restore the checkpoint into a new Federation and return the seconds that the run took until then.

    Returns None if there is no checkpoint, or only one by another version of the method (`code`) or by an
    earlier version that saved within a round. Segments of such an earlier start are deleted. A missing
    segment is written from the checkpoint.

    Raises FedshiftError for a file that is cut short or belongs to another run.
    """
    if not path.exists():
        _keep_until(-1, segments)
        return None
    tensors, metadata = read_tensors(path, "Delete it: the run then starts from scratch.")
    changed = metadata.get("code", code) != code
    if changed or not metadata["segment"]:
        why = "begun before the method's file changed" if changed else "by an earlier version"
        log.warning("%s: %s: this run starts from scratch", path, why)
        _keep_until(-1, segments)
        return None
    if metadata.get("identity") != identity or metadata.get("layout") != federation.layout.hash:
        what = f"belongs to run {metadata.get('identity')}, not to {identity}"
        raise FedshiftError(path, what, "Move it away; this run then starts from scratch.")
    if metadata["alignment"] != str(federation.layout.alignment):
        cure = (
            "Resume on the device that it was started on, or move it away: this run then starts from scratch."
        )
        raise FedshiftError(path, f"was not written on a {federation.device.type}", cure)
    tables = _tables(federation, segments)
    packed = {name: tensors.pop(name).numpy().tobytes() for name in tables}
    federation.load_state_dict(nested({**tensors, **json.loads(metadata["values"])}))
    _keep_until(federation.round, segments)  # a second writer was ahead: the checkpoint is valid
    for name, (_, folder) in tables.items():
        write_bytes(folder / metadata["segment"], packed[name])
    return float(metadata["seconds"])


def _keep_until(last: int, segments: Path) -> None:
    """Remove the segments that end after round `last`."""
    for segment in segments.rglob("*.parquet"):
        if int(segment.stem.rpartition("-")[2]) > last:
            segment.unlink()


def _tables(federation: Federation, segments: Path) -> dict[str, tuple[Table, Path]]:
    """The tables that the run records: name -> (rows in memory, the folder of its segments)."""
    tables: dict[str, tuple[Table, Path]] = {}
    if federation.method.logs:
        tables["diagnostics"] = federation.log.table, segments / "diagnostics"
    tables["statistics"] = federation.statistics, segments / "statistics"
    tables["records"] = federation.records, segments  # last: if their segment exists, so do the others
    return tables


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
