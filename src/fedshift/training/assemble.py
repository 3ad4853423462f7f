"""Puts a run together: its data, a model and a method become a Federation."""

from __future__ import annotations

from typing import Any

import torch

from fedshift.build import method_of, model_of
from fedshift.common.tensors import shapes_only
from fedshift.data.augment import Augment, Evaluate
from fedshift.data.load import RunData
from fedshift.federation.loop import Federation
from fedshift.federation.samples import Samples
from fedshift.models.base import Model
from fedshift.spec import RunSpec
from fedshift.training.pretrained import read


def assemble(spec: RunSpec, data: RunData, device: torch.device) -> tuple[Federation, dict[str, str]]:
    """The Federation of a resolved spec, and the content hashes of its data and of published weights.

    Raises FedshiftError where these weights are absent or changed.
    """

    def build() -> Model:
        return model_of(spec, len(data.classes))

    seen, px = spec.data, spec.data.prepare.px
    augment = Augment(seen.augment, px, seen.input_px, seen.normalise)
    evaluate = Evaluate(px, seen.input_px, seen.normalise)
    samples = Samples(data.images, data.labels, augment, evaluate, evaluate.mean, evaluate.deviation, device)
    hashes, options = dict(data.hashes), dict[str, Any]()
    if spec.model.init != "scratch":
        with shapes_only():
            plain = build()
        weights = read(plain, spec.model.init)
        hashes["start"], options["start"] = weights.sha256, weights.start
    federation = Federation(spec, method_of(spec), build, samples, data.clients, data.targets, **options)
    return federation, hashes
