"""How large a run's state is, before it is made: from the shapes of its model and of its method's slots;
nothing is drawn or trained.

A checkpoint holds the global row, what each client keeps, all slots, optimisers' memories that outlive a
round, the rows of the round under way (their average, where the server needs no more) and the weights of the
best round by either tie rule. Messages, and slots that grow while a run goes on (FedDG's bank), are left out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from fedshift.build import method_of, model_of
from fedshift.common.registry import get
from fedshift.common.shapes import shapes_only
from fedshift.federation.layout import Layout
from fedshift.federation.slots import Slot
from fedshift.planning.network import by_network
from fedshift.spec import RunSpec
from fedshift.spec.resolve import params

ADAM = 2  # vectors beside the one that it steps on: the first and the second moment
TIES = 2  # weights that wait for the end: of the first and of the later best round


@dataclass(frozen=True)
class Footprint:
    """Floats of one checkpoint, and of the weights that are saved of a round."""

    checkpoint: int
    weights: int


@dataclass(frozen=True)
class Shapes:
    """Floats: `trainable` of the model's `row`; `private`: entries that each of the clients has its own of;
    `slots`: all of them;
    `evaluated`: the slot that holds clients' own models; `drawn`: the server's slots that do not start at
        zero, so that it may descend on them; `saved`: those that are saved beside the weights.
    """

    trainable: int
    row: int
    private: int
    slots: int
    evaluated: int
    drawn: int
    saved: int


def footprint(spec: RunSpec, sources: int, classes: int) -> Footprint:
    """The state of a resolved spec on `sources` source domains. Raises FedshiftError where the method does
    not suit the model.
    """
    method, (active, clients) = method_of(spec), taking_part(spec, sources)
    of = _shapes(spec, classes, clients)
    models = clients * of.row if method.generates else of.row
    weights = models + clients * of.private + of.evaluated
    if spec.evaluation.keep == "slots":
        weights += of.saved
    trained = clients * of.row if spec.evaluation.keep == "clients" else 0
    weights += trained
    if spec.evaluation.keep == "none":
        weights = 0
    state = of.row + clients * of.private + of.slots + ADAM * of.drawn + _memories(spec, of, clients)
    held = 1 if method.averages or method.sequential else active
    return Footprint(state + trained + held * of.row + TIES * weights, weights)


def taking_part(spec: RunSpec, sources: int) -> tuple[int, int]:
    """How many clients train in a round, of how many: one of one where the method pools them."""
    if method_of(spec).clients == "pooled":
        return 1, 1
    scheme = get("partitions", spec.partition.scheme)
    clients = scheme(params(scheme, spec.partition.params)).clients(sources)
    return max(1, round(spec.federation.participation * clients)), clients


def _memories(spec: RunSpec, of: Shapes, clients: int) -> int:
    """Floats of the clients' optimisers: those of the model, and of the own model that is evaluated in its
    place.
    """
    method, local = method_of(spec), spec.local
    if (method.optimizer_state or local.optimizer_state) == "reset":
        return 0
    vectors = ADAM if local.optimizer == "adam" else int(local.momentum > 0)
    return vectors * clients * of.trainable * (2 if of.evaluated else 1)


@by_network
def _shapes(spec: RunSpec, classes: int, clients: int) -> Shapes:
    """Sizes of the run's network and slots, on the meta device."""
    rules = method_of(spec)
    with shapes_only():
        network = rules.model(model_of(spec, classes))
    layout = Layout(network)
    sizes = {slot.name: _size(slot, layout, clients) for slot in rules.slots}
    drawn = (slot.name for slot in rules.slots if slot.owner == "server" and callable(slot.init))
    return Shapes(
        layout.P, layout.size, (rules.personal(layout) | rules.local(layout)).size,
        sum(sizes.values()), sizes.get(rules.evaluates, 0), sum(sizes[name] for name in drawn),
        sum(sizes[slot.name] for slot in rules.slots if slot.saved),
    )  # fmt: skip


def _size(slot: Slot, layout: Layout, clients: int) -> int:
    """Floats of a slot; of a client's slot, of all clients together."""
    sizes = {"model": layout.size, "w": layout.P}
    floats = math.prod(slot.like(layout, clients)) if callable(slot.like) else sizes[slot.like]
    return floats * (clients if slot.owner == "client" else 1)
