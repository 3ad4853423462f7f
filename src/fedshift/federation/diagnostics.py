"""Diagnostics: small tensors that a method records by round, beside its training and without a wait for the
device.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from fedshift.common.errors import FedshiftError, nearest
from fedshift.federation.layout import Layout
from fedshift.federation.records import DiagnosticsTable

Owner = Literal["client", "server"]


@dataclass(frozen=True)
class Diagnostic:
    """A small tensor of a round. What is not declared cannot be recorded; the last recording of a round
    counts.

    name: by which hooks record it, `C.record(name, tensor)` or `S.record(name, tensor)`.
    meaning: what it is, in one line, with the paper's symbol and equation.
    shape: its axes, each a number, "N" (all clients), "L" (the network's layers) or, at the server, "K" (the
        clients of the round, in their order) or another word, which says what is counted: any number.
    owner: who records it: each client of a round, or the server.
    """

    name: str
    meaning: str
    shape: tuple[int | str, ...] = ()
    owner: Owner = "client"

    def __str__(self) -> str:
        """Name and axes, as lists and pages show them; a client's stand behind the clients of the round."""
        axes = self.shape if self.owner == "server" else ("K", *self.shape)
        return f"{self.name} [{', '.join(map(str, axes))}]"


class Diagnostics:
    """What the method of a run may record, and what it has recorded in the round under way.

    table: rows of finished rounds since they were last written.
    width: numbers that a client records in a round.
    """

    def __init__(self, method: str, declared: Sequence[Diagnostic], layout: Layout, clients: int) -> None:
        """Raises FedshiftError for two diagnostics of the same name, and for a client's of unknown size."""
        self._method, self.table = f"method {method}", DiagnosticsTable(clients)
        self._sizes = {"N": clients, "L": len({entry.unit for entry in layout.entries})}
        self._declared: dict[Owner, dict[str, Diagnostic]] = {"client": {}, "server": {}}
        self._pending: dict[tuple[str, tuple[int, ...]], Tensor] = {}
        self._places: dict[str, slice] = {}
        self.width = 0
        for diagnostic in declared:
            if any(diagnostic.name in names for names in self._declared.values()):
                what = f"declares the diagnostic '{diagnostic.name}' twice"
                raise FedshiftError(self._method, what, "Give one of them another name.")
            self._declared[diagnostic.owner][diagnostic.name] = diagnostic
            if diagnostic.owner == "client":
                length = torch.Size(self._shape(diagnostic)).numel()
                self._places[diagnostic.name] = slice(self.width, self.width + length)
                self.width += length

    def by_client(self, name: str, value: Tensor) -> slice:
        """Where a client writes `value`, flattened, among its `width` numbers. Raises FedshiftError for what
        is not declared.
        """
        self._check("client", name, value, {})
        return self._places[name]

    def by_server(self, name: str, value: Tensor, active: Sequence[int]) -> None:
        """Keep a copy of what the server recorded with these clients. Raises FedshiftError for what is not
        declared.
        """
        diagnostic = self._check("server", name, value, {"K": len(active)})
        clients = tuple(active) if "K" in diagnostic.shape else ()
        self._pending[name, clients] = value.detach().clone()

    def close(self, finished: int, active: Sequence[int], measured: Tensor) -> list[list[float]]:
        """End the round: bring all of it to the host at once, and put it into the table.

        measured [K, M + width]: what the engine measured of each client, then what the client recorded, NaN
        where it did not. Returns the same as numbers, by ascending client.
        """
        rows, *recorded = _on_host([measured, *self._pending.values()])
        rows, clients = rows[sorted(range(len(active)), key=active.__getitem__)], sorted(active)
        for name, place in self._places.items():
            diagnostic = self._declared["client"][name]
            values = rows[:, rows.shape[1] - self.width :][:, place]
            recorders = (~values.isnan().all(1)).nonzero().flatten().tolist()
            numbers = values[recorders].view(-1, *self._shape(diagnostic)).numpy()
            self.table.add(finished, name, ("K", *diagnostic.shape), [clients[i] for i in recorders], numbers)
        for (name, who), tensor in zip(self._pending, recorded, strict=True):
            self.table.add(finished, name, self._declared["server"][name].shape, who, tensor.numpy())
        self._pending.clear()
        return list(rows.tolist())

    def scalars(self, recorded: Sequence[float]) -> dict[str, float]:
        """The single numbers among what a client recorded [width], by name."""
        shapes = self._declared["client"]
        values = {name: recorded[at.start] for name, at in self._places.items() if not shapes[name].shape}
        return {name: value for name, value in values.items() if value == value}

    def _shape(self, diagnostic: Diagnostic) -> list[int]:
        """The sizes of a client's diagnostic."""
        sizes = [self._sizes.get(axis, 0) if isinstance(axis, str) else axis for axis in diagnostic.shape]
        if 0 in sizes:
            what = (
                f"declares '{diagnostic.name}' for the client with shape {diagnostic.shape}, of unknown size"
            )
            raise FedshiftError(self._method, what, "Use numbers, 'N' or 'L', or record it at the server.")
        return sizes

    def _check(self, owner: Owner, name: str, value: Tensor, sizes: dict[str, int]) -> Diagnostic:
        """The declaration of `name`, which `value` must fit; sizes: of further axes."""
        declared = self._declared[owner]
        if name not in declared:
            what = f"records '{name}', which it does not declare for the {owner}"
            raise FedshiftError(self._method, what, nearest(name, declared))
        known = {**self._sizes, **sizes}
        wanted = [known.get(axis) if isinstance(axis, str) else axis for axis in declared[name].shape]
        pairs = zip(wanted, value.shape, strict=False)
        if value.dim() != len(wanted) or any(size not in (None, length) for size, length in pairs):
            what = f"records '{name}' of shape {tuple(value.shape)}, declared as {declared[name].shape}"
            raise FedshiftError(self._method, what, f"With {known} it must fit.")
        return declared[name]


def _on_host(tensors: Sequence[Tensor]) -> list[Tensor]:
    """The same in fp64 on the host, by one transfer of all that are on the device."""
    away = [tensor for tensor in tensors if tensor.device.type != "cpu"]
    parts = iter(())
    if away:
        flat = torch.cat([tensor.flatten().double() for tensor in away]).cpu()
        parts = iter(flat.split([tensor.numel() for tensor in away]))
    return [
        tensor.double() if tensor.device.type == "cpu" else next(parts).view(tensor.shape)
        for tensor in tensors
    ]
