"""The only way between server and clients: it copies what is declared to travel, and counts the bytes."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from fedshift.federation.method import Method
from fedshift.federation.state import State


class Transfer:
    """Moves rows, slots and messages between the server and a client; `bytes_down` and `bytes_up` count what
    travelled.
    """

    def __init__(self, method: Method, state: State) -> None:
        self._method, self._state = method, state
        self.bytes_down = self.bytes_up = 0

    def down(self, row: Tensor, client: int, source: Tensor, again: bool = False) -> None:
        """Write what `client` receives of `source` [P + Q], and what it kept, into its `row`; `again`: it has
        it already.
        """
        state = self._state
        row[state.shared.at] = source[state.shared.at]
        row[state.private.at] = state.own[client]
        if not again:
            self.bytes_down += state.travelling * row.element_size()

    def messages_down(self, client: int, messages: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The server's travelling slots and one client's messages, as `client` gets them."""
        slots = [slot for slot in self._method.slots if slot.travels]
        has = {slot.name for slot in slots if slot.travels == "once" and self._state.visits[client]}
        got = {slot.name: self._state.slots[slot.name] for slot in slots} | _detached(messages)
        self.bytes_down += sum(value.nbytes for name, value in got.items() if name not in has)
        return got

    def up(self, row: Tensor, client: int) -> None:
        """The client keeps its personal and local entries; what never leaves it becomes NaN in the `row` that
        the server reads.
        """
        state = self._state
        state.own[client] = row[state.private.at]
        row[state.local.at] = torch.nan
        self.bytes_up += state.travelling * row.element_size()

    def messages_up(self, messages: Mapping[str, Tensor] | None) -> dict[str, Tensor]:
        """What a client sends next to its model."""
        sent = _detached(messages or {})
        self.bytes_up += sum(value.nbytes for value in sent.values())
        return sent


def _detached(messages: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: value.detach() for name, value in messages.items()}
