"""Published weights: a start that is read from a file of torchvision's instead of drawn.
`fedshift.storage.weights` gets the file.

The network's class names it (`Model.weights`) and translates its entries (`Model.published`). What the file
does not fill, such as the head, stays as drawn.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from fedshift.common.errors import FedshiftError
from fedshift.federation.layout import Layout
from fedshift.models.base import Model
from fedshift.storage.weights import of_model


@dataclass(frozen=True)
class Weights:
    """Entries of a network by name, and the hash of the file that they are from."""

    path: Path
    sha256: str
    entries: dict[str, Tensor]

    def start(self, layout: Layout, row: Tensor) -> Tensor:
        """`row` [P + Q] with these entries in place of the drawn ones. Raises FedshiftError where a method
        has replaced an entry.
        """
        named = layout.named(row)
        for name, value in self.entries.items():
            if name not in named or named[name].shape != value.shape:
                what = f"has '{name}' {tuple(value.shape)}, which the method replaces by a layer of its own"
                raise FedshiftError(self.path, what, "Set model.init: scratch for this method.")
            named[name].copy_(value)
        return row


def read(model: Model, init: str) -> Weights:
    """The published weights of a network as its class builds it (on any device).

    Raises FedshiftError where the file is absent, is another file by its hash, or lacks an entry.
    """
    file = of_model(type(model), init)
    sha256, path = file.check(), file.path
    values = torch.load(path, map_location="cpu", weights_only=True)
    entries = {}
    for name, tensor in {**dict(model.named_parameters()), **dict(model.named_buffers())}.items():
        theirs = model.published(name)
        if theirs is None or not tensor.is_floating_point():
            continue
        if theirs not in values or values[theirs].shape != tensor.shape:
            what = f"has no '{theirs}' of shape {tuple(tensor.shape)} for '{name}'"
            raise FedshiftError(path, what, f"It is not what {file.address} holds.")
        entries[name] = values[theirs]
    return Weights(path, sha256, entries)
