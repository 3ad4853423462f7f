"""A run's checkpoint: one safetensors file, replaced atomically, from which the run goes on bit for bit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fedshift.errors import FedshiftError
from fedshift.federation.loop import Federation, OpenRound
from fedshift.federation.records import Table
from fedshift.files import write_bytes
from fedshift.tensors import read_tensors, write_tensors


def save(federation: Federation, path: Path, segments: Path, identity: str) -> None:
    """Write everything that the rest of the run needs. Between rounds this closes the segments of records and statistics, which are
    then written too.
    """
    tensors = federation.state.tensors() | _open_tensors(federation.open)
    tensors |= {f"kept/{name}": tensor for name, tensor in federation.evaluator.selection.kept.items()}
    rows = federation.records.rows
    segment = (
        f"{rows[0]['round']:06d}-{federation.round:06d}.parquet" if federation.open is None and rows else ""
    )
    packed = {name: table.pack() for name, (table, _) in _tables(federation, segments).items()}
    tensors |= {name: torch.frombuffer(bytearray(data), dtype=torch.uint8) for name, data in packed.items()}
    counters = {
        "round": federation.round, "visits": federation.state.visits, "peeked": federation.server.peeked, "segment": segment,
        "validation": federation.evaluator.selection.validation,
        "best_value": federation.evaluator.selection.value, "best_round": federation.evaluator.selection.round,
        "bytes": [federation.transfer.bytes_down, federation.transfer.bytes_up],
        "passes": [federation.turn.passes.forward, federation.turn.passes.backward],
        "done": federation.open.done if federation.open else None,
        "begun": federation.open.begun if federation.open else None,
        "exchanged": federation.open is not None and federation.open.exchanged is not None,
        "clients_in_round": len(federation.open.rows) if federation.open else None,
    }  # fmt: skip
    metadata = {"counters": json.dumps(counters), "identity": identity, "layout": federation.layout.hash}
    write_tensors(path, {name: tensor.contiguous() for name, tensor in tensors.items()}, metadata)
    if segment:
        for name, (table, folder) in _tables(federation, segments).items():
            write_bytes(folder / segment, packed[name])
            table.rows = []


def resume(federation: Federation, path: Path, segments: Path, identity: str) -> bool:
    """Bring a new Federation to where the checkpoint was; False where there is none. A segment that was not written yet is written.

    Raises FedshiftError for a file that is cut short or belongs to another run.
    """
    if not path.exists():
        return False
    tensors, metadata = read_tensors(path, "Delete it: the run then starts anew.")
    if metadata.get("identity") != identity or metadata.get("layout") != federation.layout.hash:
        raise FedshiftError(
            path,
            f"belongs to run {metadata.get('identity')}, not to {identity}",
            "Move it away; this run then starts anew.",
        )
    counters: dict[str, Any] = json.loads(metadata["counters"])
    federation.turn.passes.forward, federation.turn.passes.backward = counters["passes"]
    federation.state.load(tensors)
    federation.round, federation.state.visits = counters["round"], counters["visits"]
    _resume_selection(federation, counters, tensors)
    federation.server.peeked = counters["peeked"]
    federation.transfer.bytes_down, federation.transfer.bytes_up = counters["bytes"]
    for segment in segments.rglob("*.parquet"):
        if int(segment.stem.rpartition("-")[2]) > federation.round:
            segment.unlink()  # of a second writer that was further on: the checkpoint is what holds
    for name, (table, folder) in _tables(federation, segments).items():
        data = tensors[name].numpy().tobytes()
        if counters["segment"]:
            write_bytes(folder / counters["segment"], data)
        else:
            table.unpack(data)
    if counters["done"] is not None:
        federation.open = _open_round(federation, tensors, counters)
    return True


def _tables(federation: Federation, segments: Path) -> dict[str, tuple[Table, Path]]:
    """What the run records: name -> rows in memory, and the folder of its segments. Who finds one of records finds that of statistics."""
    return {
        "statistics": (federation.statistics, segments / "statistics"),
        "records": (federation.records, segments),
    }


def _resume_selection(federation: Federation, counters: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    selection, prefix = federation.evaluator.selection, "kept/"
    selection.value, selection.round = counters["best_value"], counters["best_round"]
    selection.validation = {int(k): accuracy for k, accuracy in counters["validation"].items()}
    kept = {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
    selection.kept = {name: value.to(federation.device) for name, value in kept.items()}


def _open_tensors(open_round: OpenRound | None) -> dict[str, Tensor]:
    if open_round is None:
        return {}
    done = open_round.done
    named = {"round/rows": open_round.rows[:done], "round/measured": open_round.measured[:done]}
    for kind, messages in (("message", open_round.messages), ("first", open_round.first)):
        for name, values in messages.items():
            named |= {f"round/{kind}/{name}/{i}": value for i, value in enumerate(values)}
    return named | {f"round/exchanged/{name}": value for name, value in (open_round.exchanged or {}).items()}


def _open_round(federation: Federation, tensors: dict[str, Tensor], counters: dict[str, Any]) -> OpenRound:
    open_round, device = federation.new_round(counters["clients_in_round"]), federation.device
    done = open_round.done = counters["done"]
    open_round.begun = counters["begun"]
    open_round.rows[:done] = tensors["round/rows"].to(device)
    open_round.measured[:done] = tensors["round/measured"].to(device)
    open_round.messages = _messages("round/message/", tensors, device)
    open_round.first = _messages("round/first/", tensors, device)
    if counters["exchanged"]:
        prefix = "round/exchanged/"
        named = {name.removeprefix(prefix): tensors[name] for name in tensors if name.startswith(prefix)}
        open_round.exchanged = {name: value.to(device) for name, value in named.items()}
    return open_round


def _messages(prefix: str, tensors: dict[str, Tensor], device: torch.device) -> dict[str, list[Tensor]]:
    messages: dict[str, dict[int, Tensor]] = {}
    for name, value in tensors.items():
        if name.startswith(prefix):
            message, _, place = name.removeprefix(prefix).rpartition("/")
            messages.setdefault(message, {})[int(place)] = value.to(device)
    return {message: [values[i] for i in sorted(values)] for message, values in messages.items()}
