"""What a federated method may declare and override. A method that declares nothing is FedAvg."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from torch import Tensor

from fedshift.common.errors import FedshiftError
from fedshift.federation.client import Client
from fedshift.federation.diagnostics import Diagnostic
from fedshift.federation.layout import Index, Layout
from fedshift.federation.server import Server, mean
from fedshift.federation.state import Message, Slot
from fedshift.models.base import Model

NEAR = 0.6  # share of letters by which a name is taken for another's misspelling


@dataclass(frozen=True)
class NoParams:
    """A method without hyper-parameters."""


class Method:
    """Hooks in the order of a round. S: the server; C: one client in one round; L: the layout.

    An object serves one run. What outlives a round is a slot, which checkpoints hold; on itself a method
    keeps at most what the layout and its parameters make again.

    name: of the registry.
    version: counts up when results change.
    Params: a dataclass of the hyper-parameters; an instance of it is `hp`.
    slots: tensors that outlive the round.
    messages: tensors that live one round.
    diagnostics: small tensors that a client or the server may `record` in a round.
    clients: "pooled" trains one client on everybody's data.
    weights: overrides the protocol's weights of the average.
    weighs: `aggregate` weighs clients by a rule of the method's own, whatever the protocol says.
    optimizer_state: overrides whether clients keep their optimiser's memory between rounds.
    evaluates: the model; "shared" where clients' private entries are no part of it; or the name of a client
        slot that holds the client's own model.
    clip_first: `grad` comes after clipping.
    generates: the server makes each client's model anew in `broadcast`.
    sequential: one client after the other, in random order, with an aggregation after each.
    begins: who begins a round of `exchanges`: those that take part, or everybody, who then get what they are
        sent when they first take part.
    rendering: images made before training take the place of the training images.
    waits: how often in a round its hooks at most wait for a value of the device; `loss`, `grad` and `step`
        never do.
    own: another optimiser rule for the trainable entries of role "own", which must be the model's last ones.
    """

    name: ClassVar[str]
    version: ClassVar[int] = 1
    Params: ClassVar[type] = NoParams
    slots: tuple[Slot, ...] = ()
    messages: tuple[Message, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    clients: Literal["partition", "pooled"] = "partition"
    weights: Literal["size", "uniform"] | None = None
    weighs: ClassVar[bool] = False
    optimizer_state: Literal["reset", "persist"] | None = None
    evaluates: str = "model"
    clip_first: bool = False
    generates: bool = False
    sequential: bool = False
    begins: Literal["active", "all"] = "active"
    rendering: ClassVar[str | None] = None
    waits: ClassVar[int] = 0
    own: Mapping[str, Any] | None = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Refuse what is nearly a hook: a method with `gradient` for `grad` would be FedAvg without a
        word.
        """
        super().__init_subclass__(**kwargs)
        hooks = [name for name in vars(Method) if not name.startswith("_")]
        for name in vars(cls):
            close = difflib.get_close_matches(name, hooks, n=1, cutoff=NEAR)
            if close and not hasattr(Method, name) and not name.startswith("_"):
                cure = f"Did you mean '{close[0]}'? The names of helpers begin with '_'."
                raise FedshiftError(f"{cls.__module__}.{cls.__name__}", f"'{name}' is no hook", cure)

    def __init__(self, hp: Any = None) -> None:
        self.hp = self.Params() if hp is None else hp

    def model(self, model: Model) -> Model:
        """Change the network once, before the run: swap blocks, replace the head. Raises FedshiftError for a
        network that it cannot change.

        Called when a run is planned, too, with a network on the meta device: its tensors have no values to
        read.
        """
        return model

    def personal(self, L: Layout) -> Index:
        """Entries of which every client has its own; they travel both ways and the server may mix them."""
        return L.nothing

    def local(self, L: Layout) -> Index:
        """Entries of which every client has its own and which never leave it."""
        return L.nothing

    def broadcast(self, S: Server, clients: list[int]) -> Tensor:
        """With `generates`: the models [K, P + Q] for these clients."""
        return S.row.expand(len(clients), -1)

    def begin(self, C: Client) -> Mapping[str, Tensor] | None:
        """The model is received, no step is taken: messages to send. With `exchanges`, C and what it did to
        its row end here.
        """
        return None

    def exchanges(self, t: int) -> bool:
        """Whether clients (`begins`) begin round t before the first of them trains, and `exchange` comes
        between.
        """
        return False

    def exchange(self, S: Server, up: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """From the messages of all beginnings, {name: [K, ..]}, what each client gets, {name: [K, ..]}, as
        `C.down.<name>`.

        K clients take part; where everybody begins, they are all N.
        """
        return {}

    def loss(self, C: Client, x: Tensor, y: Tensor) -> Tensor:
        """The objective on one batch, x [B, 3, h, w], y [B]; a scalar."""
        return C.criterion(C.model(x).logits, y)

    def grad(self, C: Client, g: Tensor) -> None:
        """Change the gradient g [P] in place, between backward and clipping."""

    def step(self, C: Client, x: Tensor, y: Tensor) -> None:
        """After the optimiser's step, with the same batch."""

    def end(self, C: Client) -> Mapping[str, Tensor] | None:
        """After the client's last step, if it took any (C.steps): the messages to send."""
        return None

    @property
    def averages(self) -> bool:
        """Whether all that the server needs of the clients' rows is their weighted mean, which is then made
        as they come: it holds two rows, however many clients there are.
        """
        return type(self).aggregate is Method.aggregate

    def aggregate(self, S: Server, rows: Tensor, p: Tensor, up: Mapping[str, Tensor]) -> None:
        """Make the new global row from rows [K, P + Q] (local entries NaN), weights p [K] and messages {name:
        [K, ..]}.

        What it writes into the personal entries of `rows` is what those clients receive next. This rule,
        which most methods inherit, is given the average alone, as one row of weight 1 (`averages`).
        """
        S.row[S.shared.at] = mean(rows, p)[S.shared.at]

    def unseen(self, S: Server) -> Tensor:
        """The models [M, P + Q] for a domain that no client has; their accuracies are averaged."""
        return self.broadcast(S, list(range(S.N))) if self.generates else S.row[None]
