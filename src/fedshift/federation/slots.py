"""What a method declares to outlive a step: slots, which outlive the round, and messages, which live one
round.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from fedshift.federation.layout import Layout

Shape = Callable[[Layout, int], tuple[int, ...]]
Draw = Callable[[Layout, int, torch.Generator], Tensor]


@dataclass(frozen=True)
class Slot:
    """A tensor that outlives the round, beside the model: `S.slot.<name>` on the server, `C.slot.<name>` at a
    client.

    name: by which hooks reach it.
    like: "model" [P + Q], "w" [P], or a function of the layout and the number of clients N that returns the
        shape.
    owner: one for the server, or one for each client.
    travels: a server slot with "down" reaches the clients as `C.down.<name>` in every round; with "once" they
        keep what reached them on their first visit.
    init: zeros, the row that the client receives on its first visit, or a function of layout, N and a seeded
        generator that returns the (server's) tensor.
    saved: a server slot that is written beside the weights of a run whose `evaluation.keep` is "slots".
    """

    name: str
    like: Literal["model", "w"] | Shape
    owner: Literal["server", "client"]
    travels: Literal["", "down", "once"] = ""
    init: Literal["zeros", "received"] | Draw = "zeros"
    saved: bool = False


TRAINED = Slot("trained", "model", "client")  # where `evaluation.keep` is "clients": models after training


@dataclass(frozen=True)
class Message:
    """A tensor that lives one round; what is not declared cannot be sent.

    name: its key in what `begin` and `end` return (up), or `exchange` (down).
    way: "up" with a client's `begin` or `end`, "down" from `exchange`.
    joined: the server sees the clients' tensors one after the other, where clients send different numbers of
        rows; else stacked, [K, ..].
    """

    name: str
    way: Literal["up", "down"] = "up"
    joined: bool = False
