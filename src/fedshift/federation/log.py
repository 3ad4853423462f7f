"""Tensors that methods log: small ones of a round, which stay on the device until the round ends."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from fedshift.common.errors import FedshiftError, check_known
from fedshift.common.tensors import on_host
from fedshift.federation.records import DiagnosticsTable

CLIENT = ("client",)


class Log:
    """The logged tensors of a run; table: rows of finished rounds since they were last written."""

    def __init__(self, method: str, logs: Mapping[str, str], clients: int) -> None:
        """logs: name -> meaning of every tensor that the method logs."""
        self._method, self._names, self.table = f"method {method}", logs, DiagnosticsTable(clients)
        self._pending: dict[tuple[str, tuple[str, ...], tuple[int, ...]], Tensor] = {}

    def of_client(self, name: str, value: Tensor, client: int) -> None:
        """Save a copy of a client's tensor; the last one of the round counts.

        Raises FedshiftError for a name that the method does not declare.
        """
        check_known(self._method, "log", name, self._names)
        value, key = value.detach(), (name, CLIENT, (client,))
        before = self._pending.get(key)
        if before is not None and (before.shape, before.dtype) == (value.shape, value.dtype):
            before.copy_(value)  # in place: a recorded step logs to where it logged before
        else:
            self._pending[key] = value.clone()

    def of_server(self, name: str, value: Tensor, axes: str, active: Sequence[int]) -> None:
        """Save a copy of the server's tensor with these `axes`, of a round with these clients.

        Raises FedshiftError for a name that the method does not declare, and for axes that do not fit the
        tensor.
        """
        check_known(self._method, "log", name, self._names)
        named = tuple(axes.split())
        counted = zip(named, value.shape, strict=False)
        if value.dim() != len(named) or any(axis == "K" and n != len(active) for axis, n in counted):
            shown = f"{tuple(value.shape)} as [{', '.join(named)}]"
            what = f"logs '{name}' of shape {shown}, with K = {len(active)}"
            raise FedshiftError(self._method, what, "Name every axis of the tensor.")
        clients = tuple(active) if "K" in named else ()
        self._pending[name, named, clients] = value.detach().clone()

    def close(self, finished: int, losses: Tensor) -> tuple[list[list[float]], dict[int, dict[str, float]]]:
        """End the round: bring everything to the host in one transfer, and append it to the table.

        Returns losses [N, 2] as numbers, and the clients' scalars: client -> name -> value.
        """
        numbers, *values = on_host([losses, *self._pending.values()])
        clients: dict[str, dict[int, Tensor]] = defaultdict(dict)
        server = []
        for (name, axes, who), value in zip(self._pending, values, strict=True):
            if axes != CLIENT:
                server.append((name, axes, who, value))
            elif not value.isnan().all():
                clients[name][who[0]] = value
        scalars: dict[int, dict[str, float]] = defaultdict(dict)
        for name, by_client in clients.items():
            trained = sorted(by_client)
            stacked = torch.stack([by_client[k] for k in trained])
            self.table.add(finished, name, ("K", *stacked.shape[1:]), trained, stacked.numpy())
            if stacked.dim() == 1:
                for k, value in zip(trained, stacked.tolist(), strict=True):
                    scalars[k][name] = value
        for name, axes, active, value in server:
            self.table.add(finished, name, axes, active, value.numpy())
        self._pending.clear()
        return numbers.tolist(), scalars
