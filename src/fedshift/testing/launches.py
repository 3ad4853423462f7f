"""What methods ask of a device, by played rounds on the `meta` device: launches, bytes and FLOPs of a
training step.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

import torch
from torch import Tensor

from fedshift.build import method_of, model_of, rendering_of
from fedshift.data.augment import Augment, Evaluate
from fedshift.federation import loop
from fedshift.federation.client import Client
from fedshift.federation.launches import Count, Tally
from fedshift.federation.loop import Federation
from fedshift.federation.method import Method
from fedshift.federation.network import Network, initial
from fedshift.federation.optimizer import Optimizer, Rule
from fedshift.federation.samples import ClientData, Samples
from fedshift.spec import RunSpec
from fedshift.spec.resolve import resolve
from fedshift.testing.meta import META, Operations, Remembered, Sends, accelerator
from fedshift.testing.toys import spec

CLIENTS, STEPS, EPOCHS = 3, 10, 2  # of a round: steps of an epoch
COUNTED = 3  # this round, from 1: what is sent once, and terms that start later, lie before it
CLASSES = 7


@dataclass(frozen=True)
class Work:
    """A size of work: network, side of the stored images and of its input, batch, optimiser, augmentation."""

    model: str
    px: int
    input_px: int
    batch: int
    optimizer: str
    augment: str

    def run(self, method: str) -> RunSpec:
        """The run of a method that does this work."""
        momentum = {"momentum": 0.9} if self.optimizer == "sgd" else {}
        return resolve(
            spec(
                data={
                    "dataset": "pacs", "prepare": {"px": self.px}, "input_px": self.input_px,
                    "augment": self.augment, "normalise": "imagenet",
                },
                model={"name": self.model}, method={"name": method},
                local={"batch": self.batch, "epochs": EPOCHS, "optimizer": self.optimizer, **momentum},
                federation={"rounds": COUNTED + 1}, evaluation={"every": COUNTED + 1, "keep": "none"},
            )
        )  # fmt: skip

    def samples(self) -> Samples:
        """As many images as all clients hold, on the device, without values."""
        n = CLIENTS * STEPS * self.batch
        pixels = torch.empty(n, self.px, self.px, 3, dtype=torch.uint8, device=META)
        augment = Augment(self.augment, self.px, self.input_px, "imagenet")
        evaluate = Evaluate(self.px, self.input_px, "imagenet")
        labels = torch.arange(n) % CLASSES
        return Samples(pixels, labels, augment, evaluate, evaluate.mean, evaluate.deviation, META)


WORK = {
    "digits": Work("digits_cnn", 32, 32, 64, "adam", "none"),
    "w32": Work("hfedf_cnn", 32, 32, 64, "adam", "none"),
    "w32_augmented": Work("hfedf_cnn", 32, 32, 64, "adam", "domainbed"),
    "alexnet": Work("alexnet_bn", 256, 256, 50, "sgd", "none"),
    "resnet18": Work("resnet18", 227, 224, 16, "sgd", "fedrd"),
}


@dataclass(frozen=True)
class Demand:
    """What a method asks of a device: of a `step`, the mean over all of a round, and of the `rest` of a
    round of three clients, without evaluation.
    """

    step: Count
    rest: Count


def demand(method: str, work: Work) -> Demand:
    """Play a method to round COUNTED and count that round. Raises FedshiftError where the method does not
    suit the network.
    """
    run = work.run(method)
    copies = rendering.copies if (rendering := rendering_of(run)) else 1
    per_client, nobody = STEPS * work.batch, torch.empty(0, dtype=torch.int64)
    held = [
        ClientData(part.repeat_interleave(copies), part[:4], part[:4], (f"domain{k}",), (k % CLASSES,))
        for k, part in enumerate(torch.arange(CLIENTS * per_client).split(per_client))
    ]
    federation = Federation(run, method_of(run), lambda: model_of(run, CLASSES), work.samples(), held, nobody)
    steps, total = _Steps(), Tally()
    total.counting = False
    with accelerator(), steps.watched(total), Sends(_ignored), Remembered(), Operations(_ignored), total:
        for event in federation.run():
            if event == "round":
                total.counting = federation.round == COUNTED - 1
    rest = total.count + steps.count * -1
    return Demand(steps.count * (1 / steps.number), rest)


def bare(work: Work) -> Count:
    """A step without a federation: normalise, forward, backward (gradients are made, not added), fused
    optimiser, labels and images given.
    """
    run, samples = work.run("fedavg"), work.samples()
    model, layout, row = initial(lambda: model_of(run, CLASSES), 0)
    network = Network(model, layout, META).bind(row.to(META))
    optimizer = Optimizer(Rule.of(run.local), network.w, network.g, {})
    images, y = samples.take(torch.arange(work.batch, device=META))
    with accelerator(), Operations(_ignored):
        for _ in range(2):  # an optimiser's memory is made in the first one
            with Tally() as tally:
                loss = loop.cross_entropy(model(samples.evaluate(images)).logits, y)
                torch.autograd.grad(loss, [*model.parameters()])
                optimizer.step(run.local.lr)
    return tally.count


class _Steps:
    """What was counted within `train`, and how many steps it took."""

    def __init__(self) -> None:
        self.count, self.number = Count(), 0

    @contextmanager
    def watched(self, total: Tally) -> Iterator[None]:
        """Look at every client's training meanwhile."""
        train: Any = vars(loop)["train"]

        def training(client: Client, method: Method) -> Tensor:
            before = total.count
            result: Tensor = train(client, method)
            if total.counting:
                self.count += total.count + before * -1
                self.number += client.steps
            return result

        with mock.patch.object(loop, "train", training):
            yield


def _ignored(kind: str, what: str) -> None:
    """Whether anything waits is tested elsewhere (tests/federation/test_devices.py)."""
