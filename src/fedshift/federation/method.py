"""What a federated method may declare and override. A method that declares nothing is FedAvg."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from torch import Tensor

from fedshift.federation.aggregate import mean
from fedshift.federation.layout import Index, Layout

if TYPE_CHECKING:
    from fedshift.federation.local import Client
    from fedshift.federation.state import Server


@dataclass(frozen=True)
class Slot:
    """A vector that outlives the round, beside the model.

    like: "model" [P + Q] | "w" [P]; owner: one for the server, or one for each client; travels: a server slot with "down" reaches the
    clients as `C.down.<name>`; init: zeros, or the row that the client receives on its first visit.
    """

    name: str
    like: Literal["model", "w"]
    owner: Literal["server", "client"]
    travels: Literal["", "down"] = ""
    init: Literal["zeros", "received"] = "zeros"


@dataclass(frozen=True)
class Message:
    """A vector that a client sends with its update; it lives one round. What is not declared cannot be sent."""

    name: str
    like: Literal["model", "w"]


@dataclass(frozen=True)
class NoParams:
    """A method without hyper-parameters."""


class Method:
    """Hooks in the order of a round. S: the server; C: one client in one round; L: the layout.

    weights: overrides the protocol's weights of the average; clients: "pooled" trains one client on everybody's data; evaluates: the
    model, or the name of a client slot that holds the client's own one; clip_first: `grad` comes after clipping.
    """

    name: ClassVar[str]
    version: ClassVar[int] = 1
    Params: ClassVar[type] = NoParams
    slots: ClassVar[tuple[Slot, ...]] = ()
    messages: ClassVar[tuple[Message, ...]] = ()
    clients: ClassVar[Literal["partition", "pooled"]] = "partition"
    weights: ClassVar[Literal["size", "uniform"] | None] = None
    optimizer_state: ClassVar[Literal["reset", "persist"] | None] = None
    evaluates: ClassVar[str] = "model"
    clip_first: ClassVar[bool] = False

    def __init__(self, hp: Any = None) -> None:
        self.hp = self.Params() if hp is None else hp

    def personal(self, L: Layout) -> Index:
        """Entries of which every client has its own; they travel both ways and the server may mix them."""
        return L.nothing

    def local(self, L: Layout) -> Index:
        """Entries of which every client has its own and which never leave it."""
        return L.nothing

    def loss(self, C: Client, x: Tensor, y: Tensor) -> Tensor:
        """The objective on one batch, x [B, 3, h, w], y [B]; a scalar."""
        return C.criterion(C.model(x).logits, y)

    def grad(self, C: Client, g: Tensor) -> None:
        """Change the gradient g [P] in place, between backward and clipping."""

    def step(self, C: Client, x: Tensor, y: Tensor) -> None:
        """After the optimiser's step, with the same batch."""

    def end(self, C: Client) -> Mapping[str, Tensor] | None:
        """After the client's last step: the messages to send. Not called for a client that took no step."""
        return None

    def aggregate(self, S: Server, rows: Tensor, p: Tensor, up: Mapping[str, Tensor]) -> None:
        """Make the new global row from rows [K, P + Q] (local entries NaN), weights p [K] and messages {name: [K, ..]}."""
        S.row[S.shared.at] = mean(rows, p)[S.shared.at]

    def unseen(self, S: Server) -> Tensor:
        """The models [M, P + Q] for a domain that no client has; their accuracies are averaged."""
        return S.row[None]
