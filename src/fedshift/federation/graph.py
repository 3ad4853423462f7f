"""A training step as one CUDA graph: recorded once in a client's round, then replayed by one launch.

A graph repeats operations on fixed addresses. Rows, slots, messages, `C.tmp` and the optimiser only have
fixed addresses within a client's round. Each round therefore records a new graph, and checkpoints contain
none.
"""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import torch
from torch import Tensor

from fedshift.common.errors import FedshiftError
from fedshift.federation.client import Client
from fedshift.federation.method import Method


class Steps:
    """The steps of one client's round; most of them replay a graph.

    Eager steps are the first of the round, which creates the optimiser's memory and may differ in a method,
    and batches of another size. For a method that is steady by epoch, the first step of each epoch is eager,
    too.
    """

    def __init__(
        self, client: Client, method: Method, step: Callable[[Tensor, Tensor], Tensor],
        graph: Callable[[], Any] | None,
    ) -> None:  # fmt: skip
        """step(x, y): takes one step and returns its loss; graph: as of `Worker`."""
        self._client, self._name, self._step, self._new = client, method.name, step, graph
        self._steadiness = method.steadiness if graph else ""
        self._graph: Any = None

    def take(self, x: Tensor, y: Tensor) -> Tensor:
        """Take one step on a batch and return its loss."""
        client, passes = self._client, self._client.worker.passes
        if client.steps == 0:
            self._shape = x.shape
        first = client.steps == 0 or (self._steadiness == "epoch" and client.new_epoch)
        if not self._steadiness or first or x.shape != self._shape:
            return self._step(x, y)
        if self._graph is None:
            self._graph = self._record(x, y)
        else:
            self._x.copy_(x)
            self._y.copy_(y)
        self._graph.replay()
        client.stepped()
        passes.forward += self._passes[0]  # hooks do not run in a replay
        passes.backward += self._passes[1]
        return self._loss.clone()

    def _record(self, x: Tensor, y: Tensor) -> Any:
        """Record a graph of the step on this batch, without computing it.

        Raises FedshiftError for a method that samples on the host, because a replay would repeat its samples.
        """
        client, worker = self._client, self._client.worker
        assert self._new is not None
        graph, host = self._new(), self._host()
        counted = client.steps, client.lr_sum, worker.passes.forward, worker.passes.backward
        # Not torch.cuda.graph(): it empties the allocator's cache each time. thread_local: another thread may
        # allocate meanwhile, to gather images.
        pool = worker.graph_kept.pool() if worker.graph_kept else None
        graph.capture_begin(pool=pool, capture_error_mode="thread_local")
        try:
            self._x, self._y, self._loss = x, y, self._step(x, y)
        except BaseException:
            with suppress(RuntimeError):  # a broken recording
                graph.capture_end()
            raise
        graph.capture_end()
        self._passes = worker.passes.forward - counted[2], worker.passes.backward - counted[3]
        client.steps, client.lr_sum, worker.passes.forward, worker.passes.backward = counted
        if self._host() != host:
            cure = 'Declare `steady = ""` in it, sample on the device, or set `graph: "off"` in params.yaml.'
            raise FedshiftError(f"method {self._name}", "is steady, but its step samples on the host", cure)
        worker.graph_kept = graph  # its memory is the next one's
        return graph

    def _host(self) -> tuple[Any, ...]:
        """The state of the generators on the host that a method can reach."""
        states = torch.get_rng_state(), self._client.rng.get_state()
        return random.getstate(), *(bytes(state.numpy()) for state in states)


@contextmanager
def side_stream(device: torch.device, on: bool) -> Iterator[None]:
    """Run the block on a new stream if `on`, because CUDA records no graph on the default stream."""
    if not on or device.type != "cuda":
        yield
        return
    outer, side = torch.cuda.current_stream(device), torch.cuda.Stream(device)
    side.wait_stream(outer)
    with torch.cuda.stream(side):
        yield
    outer.wait_stream(side)
