"""How large a run's state is, before it is made: from the shapes of its model and of its method's slots; nothing is drawn or trained.

A checkpoint holds the global row, what each client keeps, all slots, optimisers' memories that outlive a round, the rows of the
round under way and the weights of the best round by either tie rule. Messages, and slots that grow while a run goes on (FedDG's
bank), are left out.
"""

from __future__ import annotations

import functools
import json
import math
from dataclasses import dataclass

import torch

from fedshift.federation.layout import Layout
from fedshift.federation.method import Slot
from fedshift.files import canonical_json
from fedshift.registry import get
from fedshift.resolve import params
from fedshift.spec import RunSpec

ADAM = 2  # vectors beside the one that it steps on: the first and the second moment
TIES = 2  # weights that wait for the end: of the first and of the later best round


@dataclass(frozen=True)
class Footprint:
    """Floats of one checkpoint, and of the weights that one round is kept with."""

    checkpoint: int
    weights: int


@dataclass(frozen=True)
class Shapes:
    """Floats: `trainable` of the model's `row`; `kept`: entries that each of the clients has its own of; `slots`: all of them;
    `evaluated`: the slot that holds clients' own models; `drawn`: the server's slots that do not start at zero, so that it may descend on them."""

    trainable: int
    row: int
    kept: int
    slots: int
    evaluated: int
    drawn: int


def footprint(spec: RunSpec, sources: int, classes: int) -> Footprint:
    """The state of a resolved spec on `sources` source domains. Raises FedshiftError where the method does not suit the model."""
    method, scheme = get("methods", spec.method.name), get("partitions", spec.partition.scheme)
    held = scheme(params(scheme, spec.partition.params)).clients(sources)
    clients = 1 if method.clients == "pooled" else held
    active = max(1, round(spec.federation.participation * clients))
    of = _shapes(
        spec.model.name, canonical_json(spec.model.params), classes, spec.data.input_px,
        spec.method.name, canonical_json(spec.method.params), clients,
    )  # fmt: skip
    trained = clients * of.row if spec.evaluation.keep == "post_train" else 0
    models = clients * of.row if method.generates else of.row
    weights = models + clients * of.kept + of.evaluated + trained
    if spec.evaluation.keep == "none":
        weights = 0
    state = of.row + clients * of.kept + of.slots + ADAM * of.drawn + trained + _memories(spec, of, clients)
    return Footprint(state + active * of.row + TIES * weights, weights)


def _memories(spec: RunSpec, of: Shapes, clients: int) -> int:
    """Floats of the clients' optimisers: those of the model, and of the own model that is evaluated in its place."""
    method, local = get("methods", spec.method.name), spec.local
    if (method.optimizer_state or local.optimizer_state) == "reset":
        return 0
    vectors = ADAM if local.optimizer == "adam" else int(local.momentum > 0)
    return vectors * clients * of.trainable * (2 if of.evaluated else 1)


@functools.cache
def _shapes(
    model: str, options: str, classes: int, px: int, method: str, chosen: str, clients: int
) -> Shapes:
    kind = get("methods", method)
    rules = kind(params(kind, json.loads(chosen)))
    with torch.device("meta"):
        network = rules.model(get("models", model)(classes, px, **json.loads(options)))
    layout = Layout(network)
    sizes = {slot.name: _size(slot, layout, clients) for slot in rules.slots}
    drawn = (slot.name for slot in rules.slots if slot.owner == "server" and callable(slot.init))
    return Shapes(
        layout.P, layout.size, (rules.personal(layout) | rules.local(layout)).size,
        sum(sizes.values()), sizes.get(rules.evaluates, 0), sum(sizes[name] for name in drawn),
    )  # fmt: skip


def _size(slot: Slot, layout: Layout, clients: int) -> int:
    """Floats of a slot; of a client's slot, of all clients together."""
    sizes = {"model": layout.size, "w": layout.P}
    one = math.prod(slot.like(layout, clients)) if callable(slot.like) else sizes[slot.like]
    return one * (clients if slot.owner == "client" else 1)
