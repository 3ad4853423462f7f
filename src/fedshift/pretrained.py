"""Published weights: a start that is read from a file of torchvision's instead of drawn. Nothing is downloaded.

The file's name ends with the first eight hexadecimals of its SHA-256, as torchvision publishes it; the network's class names the file
(`Model.weights`) and translates its entries (`Model.published`). What the file does not fill, such as the head, stays as drawn.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from fedshift.errors import FedshiftError, unknown
from fedshift.federation.layout import Layout
from fedshift.files import sha256_file
from fedshift.models.base import Model

FOLDER = "FEDSHIFT_WEIGHTS"  # environment: where the files lie, if not in torch's cache
PUBLISHED = "https://download.pytorch.org/models"


@dataclass(frozen=True)
class Weights:
    """Entries of a network by name, and the hash of the file that they are from."""

    path: Path
    sha256: str
    entries: dict[str, Tensor]

    def start(self, layout: Layout, row: Tensor) -> Tensor:
        """`row` [P + Q] with these entries in place of the drawn ones. Raises FedshiftError where a method has replaced one of them."""
        named = layout.named(row)
        for name, value in self.entries.items():
            if name not in named or named[name].shape != value.shape:
                what = f"has '{name}' {tuple(value.shape)}, which the method replaces by a layer of its own"
                raise FedshiftError(self.path, what, "Set model.init: scratch for this method.")
            named[name].copy_(value)
        return row


def weights_file(model: type[Model], init: str) -> Path:
    """Where the file of a start lies or should lie. Raises FedshiftError for a network without such a start."""
    if init not in model.weights:
        raise unknown(f"model {model.name}", "init", init, ["scratch", *model.weights])
    folder = os.environ.get(FOLDER)
    return (Path(folder) if folder else Path(torch.hub.get_dir()) / "checkpoints") / model.weights[init]


def read(model: Model, init: str) -> Weights:
    """The published weights of a network as its class builds it (on any device).

    Raises FedshiftError where the file is absent, is another one by its hash, or lacks an entry.
    """
    path = weights_file(type(model), init)
    source = f"{PUBLISHED}/{path.name}"
    if not path.is_file():
        cure = f"Download {source} into {path.parent}, or set {FOLDER} to the folder that has it, or set model.init: scratch."
        raise FedshiftError(path, f"the published weights of {model.name} are not there", cure, retry=True)
    declared, found = path.stem.rpartition("-")[2], sha256_file(path)
    if not found.startswith(declared):
        what = f"is another file: its SHA-256 begins with {found[: len(declared)]}, not {declared}"
        raise FedshiftError(path, what, f"Download it again: {source}", retry=True)
    values = torch.load(path, map_location="cpu", weights_only=True)
    entries = {}
    for name, tensor in {**dict(model.named_parameters()), **dict(model.named_buffers())}.items():
        theirs = model.published(name)
        if theirs is None or not tensor.is_floating_point():
            continue
        if theirs not in values or values[theirs].shape != tensor.shape:
            what = f"has no '{theirs}' of shape {tuple(tensor.shape)} for '{name}'"
            raise FedshiftError(path, what, f"It is not what {source} holds.")
        entries[name] = values[theirs]
    return Weights(path, found, entries)
