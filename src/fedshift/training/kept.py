"""The weights that a finished run kept, back in a Federation: the inverse of what run.py wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fedshift.errors import FedshiftError, unknown
from fedshift.federation.batches import visits
from fedshift.federation.layout import Layout
from fedshift.federation.loop import Federation
from fedshift.files import sha256
from fedshift.tensors import read_tensors


def unseen(federation: Federation, run: Path, summary: dict[str, Any], selection: str) -> Tensor:
    """The models [M, P + Q] that the run's method makes for an unseen domain from its kept weights of `selection`.

    selection: "last", "best_first" or "best_later". Raises FedshiftError where there are none, or they have been changed.
    """
    kept = rows(run, summary, selection, federation.layout)
    state = federation.state
    if "generated" in kept:
        return kept["generated"].to(state.row.device)
    if "shared" in kept:
        state.row[state.shared.at] = kept["shared"].to(state.row.device)[state.shared.at]
    if "own" in kept:
        state.own.copy_(kept["own"].to(state.row.device)[:, state.private.at])
    spec = federation.spec
    rounds = summary["best_round"].get(selection.removeprefix("best_"), spec.federation.rounds)
    state.visits = visits(state.clients, spec.federation.participation, spec.seed, rounds)
    with torch.no_grad():
        return federation.method.unseen(federation.server).clone()


def rows(run: Path, summary: dict[str, Any], selection: str, layout: Layout) -> dict[str, Tensor]:
    """ "shared" [P + Q], "own" [N, P + Q], or what else the run kept, on the CPU; NaN where an entry is not part of it."""
    files: dict[str, str] = summary["weights"]
    if not files:
        raise FedshiftError(run, "kept no weights", "Train it with evaluation.keep: post_agg.")
    if selection not in files:
        raise unknown(run, "selection", selection, files)
    path = run / files[selection]
    if not path.is_file():
        what = "is not there: results that were pulled come without weights"
        raise FedshiftError(path, what, "Delete the run's directory and train it again.")
    entries, told = read_tensors(path, "Delete the run's directory and train it again.")
    content = b"".join(name.encode() + entries[name].numpy().tobytes() for name in sorted(entries))
    if sha256(content) != summary["hashes"][f"weights_{selection}"]:
        raise FedshiftError(
            path, "has been changed since the run", "Delete the run's directory and train it again."
        )
    if told["layout"] != layout.hash:
        raise FedshiftError(path, "holds another network than the code builds now", "Train the run again.")
    by_name = {entry.name: entry for entry in layout.entries}
    made: dict[str, Tensor] = {}
    for name, value in entries.items():
        part, _, key = name.partition("/")
        entry = by_name[key]
        shape = value.shape[: value.dim() - len(entry.shape)]
        row = made.setdefault(part, torch.full((*shape, layout.size), torch.nan, dtype=value.dtype))
        for one, new in zip(row.view(-1, layout.size), value.view(-1, *entry.shape), strict=True):
            entry.view(one).copy_(new)
    return made
