"""How far a round is: what its clients have left behind until the server aggregates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

Messages = dict[str, list[Tensor]]


class RoundProgress:
    """Everything that a resume between two clients of a round needs.

    rows: trained rows [K, P + Q], in the order of the round's clients; where nobody needs more of them than
        their average, or they are aggregated one by one, that of whoever trains [1, P + Q].
    average: of the rows so far, where it is made as they come [P + Q].
    measured: of each client the sum of its losses, the samples seen, and what it has recorded (NaN: nothing)
        [K, 2 + D], fp64.
    recorded: the part of it for what clients record [K, D], sharing memory.
    done: how many clients have trained.
    messages: what they sent beside their rows.
    begun: how many clients have begun, in a round where they do before the first trains.
    first: their messages.
    exchanged: what `exchange` gave; None before it.
    """

    def __init__(self, rows: Tensor, clients: int, diagnostics: int) -> None:
        self.rows = rows
        self.average: Tensor | None = None
        self.measured = rows.new_zeros(clients, 2 + diagnostics, dtype=torch.float64)
        self.recorded = self.measured[:, 2:].fill_(torch.nan)
        self.done = self.begun = 0
        self.messages: Messages = {}
        self.first: Messages = {}
        self.exchanged: dict[str, Tensor] | None = None

    @property
    def trained(self) -> Tensor:
        """The rows that the server still needs: of the clients that have trained, where all are held."""
        return self.rows[: self.done if len(self.rows) == len(self.measured) else 0]

    def row(self, position: int) -> Tensor:
        """Where the round's `position`-th client trains [P + Q]."""
        return self.rows[position % len(self.rows)]

    def state_dict(self) -> dict[str, Any]:
        """Nested by name."""
        return {
            **({} if self.average is None else {"average": self.average}),
            "rows": self.trained, "measured": self.measured, "clients": len(self.measured),
            "done": self.done, "begun": self.begun, "messages": _numbered(self.messages),
            "first": _numbered(self.first), "has_exchanged": self.exchanged is not None,
            "exchanged": dict(self.exchanged or {}),
        }  # fmt: skip

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Take back what `state_dict` gave, into a progress made for the same round."""
        device = self.rows.device
        self.done, self.begun = saved["done"], saved["begun"]
        self.trained.copy_(saved["rows"])
        self.average = saved["average"].to(device) if "average" in saved else None
        self.measured.copy_(saved["measured"])
        self.messages = _listed(saved.get("messages", {}), device)
        self.first = _listed(saved.get("first", {}), device)
        if saved["has_exchanged"]:
            self.exchanged = {name: value.to(device) for name, value in saved.get("exchanged", {}).items()}


def gather(messages: Messages, sent: Mapping[str, Tensor]) -> None:
    """Put one client's messages behind those of the clients before it."""
    for name, value in sent.items():
        messages.setdefault(name, []).append(value)


def _numbered(messages: Messages) -> dict[str, dict[str, Tensor]]:
    return {name: {str(i): value for i, value in enumerate(values)} for name, values in messages.items()}


def _listed(saved: Mapping[str, Mapping[str, Tensor]], device: torch.device) -> Messages:
    return {name: [values[str(i)].to(device) for i in range(len(values))] for name, values in saved.items()}
