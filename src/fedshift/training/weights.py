"""The weights of a finished run: written from its Federation, and read back into one."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fedshift.common.errors import FedshiftError, unknown
from fedshift.common.files import canonical_json, sha256
from fedshift.common.tensors import read_tensors, write_tensors
from fedshift.evaluations.base import Kept
from fedshift.experiments.task import KEPT
from fedshift.federation.batches import visits
from fedshift.federation.evaluate import Set
from fedshift.federation.evaluator import TARGET
from fedshift.federation.layout import Layout
from fedshift.federation.loop import Federation
from fedshift.federation.state import TRAINED
from fedshift.storage.rundir import RunDirectory, rounds_trained

AGAIN = "Delete the run's directory and train it again."
METADATA = "fedshift"  # the one key of a file's metadata: safetensors writes several in random order


def write(federation: Federation, folder: Path) -> dict[str, dict[str, str]]:
    """Write a finished run's weights, one file for each selected round, entries in their own shapes.

    The same weights give the same bytes. An existing file of that name is replaced. Returns selection
    ("last", "best_first", "best_later") -> {file, relative to the run's directory; sha256 of its entries}.
    """
    selections = {"last": (federation.round, federation.evaluator.weights())}
    for tie, finished in federation.evaluator.selection.round.items():
        selections[f"best_{tie}"] = (finished, federation.evaluator.selection.best_weights[tie])
    written: dict[str, dict[str, str]] = {}
    for selection, (finished, tensors) in selections.items():
        entries = _entries(federation, tensors)
        if not entries:
            continue
        path = folder / f"round{finished}.safetensors"
        file = f"weights/{path.name}"
        if file not in {one["file"] for one in written.values()}:
            facts = canonical_json({"round": finished, "layout": federation.layout.hash})
            write_tensors(path, entries, {METADATA: facts})
        written[selection] = {"file": file, "sha256": _hash(entries)}
    return written


def _entries(federation: Federation, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Tensors by entry: `shared/<entry>`, `own/<entry>` and `<slot>/<entry>` [N, ..], `slot/<name>`."""
    layout, mask = federation.layout, federation.state.private.mask
    whole = {slot.name for slot in federation.method.slots if slot.saved}
    named = {}
    for name, tensor in tensors.items():
        if name in whole:
            named[f"slot/{name}"] = tensor.contiguous().cpu()
            continue
        rows = tensor if tensor.dim() == 2 else tensor[None]
        if name == "own":
            rows = rows.new_full((len(rows), layout.size), torch.nan).index_copy(
                1, mask.nonzero().flatten().to(rows.device), rows
            )
        for entry in layout.entries:
            private = bool(mask[entry.offset])
            if (name == "row" and private) or (name == "own" and not private):
                continue
            logical = torch.stack([entry.view(row) for row in rows]).contiguous().cpu()
            named[f"{'shared' if name == 'row' else name}/{entry.name}"] = (
                logical[0] if tensor.dim() == 1 else logical
            )
    return named


def _hash(entries: dict[str, Tensor]) -> str:
    return sha256(b"".join(name.encode() + entries[name].numpy().tobytes() for name in sorted(entries)))


def restore(
    federation: Federation, run: RunDirectory, summary: dict[str, Any], selection: str
) -> dict[str, Tensor]:
    """Load a run's saved weights of `selection` into its new Federation; return all of them, by name, as
    `rows` does.

    Raises FedshiftError if there are none, or they have been changed.

    selection: "last", "best_first" or "best_later"
    """
    state, kept = federation.state, rows(run, summary, selection, federation.layout)
    restored = {name: row.to(state.row.device) for name, row in kept.items()}
    if "shared" in restored:
        state.row[state.shared.at] = restored["shared"][state.shared.at]
    if "own" in restored:
        state.own.copy_(restored["own"][:, state.private.at])
    part, seed = federation.spec.federation.participation, federation.spec.seed
    state.visits = visits(state.clients, part, seed, round_of(summary, selection))
    return restored


def round_of(summary: dict[str, Any], selection: str) -> int:
    """The round of the weights of a selection.

    Raises FedshiftError for an unknown selection, and for the best round if no client has a validation image.
    """
    if selection not in KEPT:
        raise unknown("select", "round that runs keep", selection, KEPT)
    if selection == "last":
        return rounds_trained(summary)
    best = summary["best_round"].get(selection.removeprefix("best_"))
    if best is None:
        what = f"no client has a validation image, so no round is {selection}"
        raise FedshiftError(f"run {summary['digest']}", what, "Write select: last, or use larger clients.")
    return int(best)


def models(federation: Federation, restored: dict[str, Tensor], targets: list[Tensor]) -> Iterator[Kept]:
    """The models of restored weights, each with the sets that fedshift.federation.evaluator tests it on.

    targets: positions of the images of each held-out domain.

    A client's own model right after its training is only included in three cases: it is a slot, nothing is
    shared, or the run saved it (`evaluation.keep: clients`). Otherwise the aggregation has changed it. A
    client that never trained is left out, too: its slot is empty, and the run tested what the client had
    received. For a method without own models, `keep: clients` saves models without records.
    """
    method, state, home = federation.method, federation.state, federation.worker.samples.home
    untrained = not any(state.visits)  # round 0: what every client has is the start

    def own(k: int) -> Tensor | None:
        if method.evaluates not in ("model", "shared"):
            if untrained:
                return state.row
            return restored[method.evaluates][k] if state.visits[k] else None
        if TRAINED.name in restored:
            return restored[TRAINED.name][k] if state.visits[k] and method.clients != "pooled" else None
        alone = federation.evaluator.keeps_own and not (state.shared.size or method.generates)
        return state.private_row(k) if alone else None

    held_out: list[Set] = [(TARGET - place, "target", index.to(home)) for place, index in enumerate(targets)]
    found = federation.evaluator.models(own, restored.get("generated"), held_out)
    for tested, member, row, sets in found:
        yield Kept(*tested, member, row.clone(), sets)


def rows(run: RunDirectory, summary: dict[str, Any], selection: str, layout: Layout) -> dict[str, Tensor]:
    """The saved weights of a run, on the CPU: "shared" [P + Q], "own" [N, P + Q], or other names.

    Entries that are not part of a row are NaN. "slot/<name>" is a slot without changes. Raises FedshiftError
    if the weights are missing or changed, or the network differs.
    """
    files: dict[str, str] = summary["weights"]
    if not files:
        raise FedshiftError(run.path, "saved no weights", "Train it with evaluation.keep: post_agg.")
    if selection not in files:
        raise unknown(run.path, "selection", selection, files)
    path = run.path / files[selection]
    if not path.is_file():
        what = "is not there: results that were pulled come without weights"
        raise FedshiftError(path, what, AGAIN)
    entries, metadata = read_tensors(path, AGAIN)
    if _hash(entries) != summary["hashes"][f"weights_{selection}"]:
        raise FedshiftError(path, "has been changed since the run", AGAIN)
    facts = json.loads(metadata[METADATA]) if METADATA in metadata else metadata  # of older files
    if facts["layout"] != layout.hash:
        raise FedshiftError(path, "holds another network than the code builds now", "Train the run again.")
    by_name = {entry.name: entry for entry in layout.entries}
    tensors: dict[str, Tensor] = {}
    for name, value in entries.items():
        part, _, key = name.partition("/")
        if part == "slot":
            tensors[name] = value
            continue
        entry = by_name[key]
        shape = value.shape[: value.dim() - len(entry.shape)]
        row = tensors.setdefault(part, torch.full((*shape, layout.size), torch.nan, dtype=value.dtype))
        for flat, new in zip(row.view(-1, layout.size), value.view(-1, *entry.shape), strict=True):
            entry.view(flat).copy_(new)
    return tensors
