"""The only way between server and clients: it copies what is declared to travel, and counts the bytes."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from fedshift.common.errors import FedshiftError, nearest
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

    def down_slots(self, client: int, messages: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The server's travelling slots and one client's messages, as `client` gets them."""
        slots = {slot.name: self._state.slots[slot.name] for slot in self._method.slots if slot.travels}
        has = {
            slot.name for slot in self._method.slots if slot.travels == "once" and self._state.visits[client]
        }
        got = slots | self._declared(messages, "down")
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

    def up_messages(self, messages: Mapping[str, Tensor] | None) -> dict[str, Tensor]:
        """What a client sends beside its model. Raises FedshiftError for a message that its method does not
        declare.
        """
        sent = self._declared(messages or {}, "up")
        self.bytes_up += sum(value.nbytes for value in sent.values())
        return sent

    def _declared(self, messages: Mapping[str, Tensor], way: str) -> dict[str, Tensor]:
        declared = [message.name for message in self._method.messages if message.way == way]
        for name in messages:
            if name not in declared:
                where = f"method {self._method.name}"
                raise FedshiftError(
                    where, f"sends '{name}' {way}, which it does not declare", nearest(name, declared)
                )
        return {name: value.detach() for name, value in messages.items()}
