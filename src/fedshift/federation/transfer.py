"""The only way between server and clients: it copies what is declared to travel, and counts the bytes."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from fedshift.federation.method import Method
from fedshift.federation.state import State


class Transfer:
    """Moves rows, slots and messages between the server and a client; `bytes_down` and `bytes_up` count what travelled."""

    def __init__(self, method: Method, state: State) -> None:
        self._method, self._state = method, state
        self.bytes_down = self.bytes_up = 0

    def down(self, row: Tensor, client: int) -> dict[str, Tensor]:
        """Write what `client` receives, and what it kept, into its `row`; the travelling slots are returned."""
        state = self._state
        row[state.shared.at] = state.row[state.shared.at]
        row[state.kept.at] = state.own[client]
        self.bytes_down += (state.shared.size + state.personal.size) * row.element_size()
        slots = {slot.name: state.slots[slot.name] for slot in self._method.slots if slot.travels == "down"}
        self.bytes_down += sum(value.nbytes for value in slots.values())
        return slots

    def up(self, row: Tensor, client: int, messages: Mapping[str, Tensor] | None) -> dict[str, Tensor]:
        """The client keeps its personal and local entries; what never leaves it becomes NaN in the `row` that the server reads."""
        state = self._state
        state.own[client] = row[state.kept.at]
        row[state.local.at] = torch.nan
        self.bytes_up += (state.shared.size + state.personal.size) * row.element_size()
        sent = dict(messages or {})
        declared = {message.name: message.like for message in self._method.messages}
        for name, value in sent.items():
            size = {"model": state.layout.size, "w": state.layout.P}[declared[name]]
            assert value.shape == (size,), (
                f"message '{name}' has shape {tuple(value.shape)}, declared [{size}]"
            )
            self.bytes_up += value.nbytes
        return sent
