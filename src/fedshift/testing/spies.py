"""Spies: what a run did, seen while it ran."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from torch import Tensor

from fedshift.federation import loop
from fedshift.federation.client import Client
from fedshift.federation.layout import Network
from fedshift.federation.loop import Federation
from fedshift.federation.method import Method
from fedshift.testing.toys import finish


def aliased(network: Network) -> bool:
    """Whether every tensor and gradient of a network still shares memory with its flat vectors."""
    return all(
        tensor.data_ptr() == entry.view(network.row).data_ptr()
        and (
            not tensor.requires_grad
            or (tensor.grad is not None and tensor.grad.data_ptr() == entry.view(network.g).data_ptr())
        )
        for tensor, entry in network._pairs
    )


def recorded(owner: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """The arguments and the result of every later call of a function of a module or class."""
    calls: list[tuple[Any, ...]] = []
    function: Callable[..., Any] = getattr(owner, name)

    def spy(*args: Any, **options: Any) -> Any:
        before = [arg.clone() if isinstance(arg, Tensor) else arg for arg in args]
        calls.append((*before, function(*args, **options)))
        return calls[-1][-1]

    monkeypatch.setattr(owner, name, spy)
    return calls


def turns(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Tensor, Tensor]]:
    """(received, trained) rows of every later turn of a client."""
    seen: list[tuple[Tensor, Tensor]] = []
    train: Callable[[Client, Method], Tensor] = vars(loop)["train"]

    def spy(self: Client, hooks: Method) -> Tensor:
        result = train(self, hooks)
        seen.append((self.received.clone(), self.row.clone()))
        return result

    monkeypatch.setattr(loop, "train", spy)
    return seen


def trained(federation: Federation, monkeypatch: pytest.MonkeyPatch) -> list[tuple[Tensor, Tensor]]:
    """Run to the end; (received, trained) rows of every turn."""
    with monkeypatch.context() as patch:
        seen = turns(patch)
        finish(federation)
    return seen
