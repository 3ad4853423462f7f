"""Assemble a run: its data, a model and a method become a Federation."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fedshift.common.errors import FedshiftError
from fedshift.common.tensors import shapes_only
from fedshift.data.augment import Augment, Evaluate
from fedshift.data.load import RunData
from fedshift.federation.layout import Layout
from fedshift.federation.loop import Federation
from fedshift.federation.samples import Samples
from fedshift.models.base import Model
from fedshift.spec import RunSpec
from fedshift.storage.weights import of_model


def assemble(spec: RunSpec, data: RunData, device: torch.device) -> tuple[Federation, dict[str, str]]:
    """The Federation of a resolved spec, and the content hashes of its data and of published weights.

    Raises FedshiftError if these weights are absent or changed.
    """
    hashes, options = dict(data.hashes), dict[str, Any]()
    if spec.model.init != "scratch":
        with shapes_only():
            plain = spec.model.build(len(data.classes), spec.data.input_px)
        weights = read(plain, spec.model.init)
        hashes["start"], options["start"] = weights.sha256, weights.start
    return federation_of(spec, data, device, **options), hashes


def federation_of(spec: RunSpec, data: RunData, device: torch.device, **options: Any) -> Federation:
    """The Federation of a resolved spec with random initial weights; `start` may set published ones."""

    def build() -> Model:
        return spec.model.build(len(data.classes), spec.data.input_px)

    seen, px = spec.data, spec.data.prepare.px
    augment = Augment(seen.augment, px, seen.input_px, seen.normalise)
    evaluate = Evaluate(px, seen.input_px, seen.normalise)
    samples = Samples(data.images, data.labels, augment, evaluate, evaluate.mean, evaluate.deviation, device)
    return Federation(spec, spec.method.build(), build, samples, data.clients, data.targets, **options)


@dataclass(frozen=True)
class Weights:
    """Entries of a network by name, and the hash of their file."""

    path: Path
    sha256: str
    entries: dict[str, Tensor]

    def start(self, layout: Layout, row: Tensor) -> Tensor:
        """Set these entries in `row` [P + Q]. Raises FedshiftError if the method has replaced one of them."""
        named = layout.named(row)
        for name, value in self.entries.items():
            if name not in named or named[name].shape != value.shape:
                what = f"has '{name}' {tuple(value.shape)}, which the method replaces by its own layer"
                raise FedshiftError(self.path, what, "Set model.init: scratch for this method.")
            named[name].copy_(value)
        return row


def read(model: Model, init: str) -> Weights:
    """The published weights of a network as its class builds it (on any device).

    Raises FedshiftError if the file is absent or has another hash, or an entry is missing in it.
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
