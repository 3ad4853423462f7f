"""A model whose tensors and gradients are views into flat vectors."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from fedshift.federation.layout import ALIGNMENT, Layout
from fedshift.federation.rng import key
from fedshift.models.base import Model


class Network:
    """A model bound to one row at a time: its tensors are views into the row, its gradients views into `g`
    [P].

    Training the model changes the row in place, so a client's result needs no copy. Binding costs no memory.
    """

    def __init__(self, model: Model, layout: Layout, device: torch.device) -> None:
        self.model: Model = model.to(device)
        self.g = torch.zeros(layout.P, dtype=layout.dtype, device=device)
        self.row = torch.zeros(layout.size, dtype=layout.dtype, device=device)
        tensors = dict(model.named_parameters()) | dict(model.named_buffers())
        self._pairs = [(tensors[entry.name], entry) for entry in layout.entries]
        self._gradients: list[tuple[Tensor, Tensor]] = []
        for tensor, entry in self._pairs:
            tensor.data = entry.view(self.row)
            if entry.offset < layout.P:
                tensor.grad = entry.view(self.g)
                self._gradients.append((tensor, tensor.grad))

    @property
    def w(self) -> Tensor:
        """The trainable part of the row, [P]."""
        return self.row[: len(self.g)]

    def bind(self, row: Tensor) -> Network:
        """Make every tensor of the model a view into `row` [P + Q]."""
        if row.data_ptr() == self.row.data_ptr():
            return self
        self.row = row
        for tensor, entry in self._pairs:
            tensor.data = entry.view(row)
        return self

    def backward(self, loss: Tensor) -> None:
        """Make `g` the gradient of a loss; zero where it does not reach, or nothing is trained.

        The gradients of all tensors are copied together: adding each to its place takes a launch for each.
        """
        trained = [pair for pair in self._gradients if pair[0].requires_grad]
        if len(trained) < len(self._gradients):
            self.g.zero_()
        tensors, places = zip(*trained, strict=True)
        torch._foreach_copy_(places, torch.autograd.grad(loss, tensors, materialize_grads=True))


def initial(
    build: Callable[[], Model], seed: int, device: torch.device | None = None
) -> tuple[Model, Layout, Tensor]:
    """A run's network, its layout as `device` wants it, and its start [P + Q], all on the CPU: every module
    is drawn by itself, seeded by run seed and its name.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(key(seed, "start"))
        model = build()
        for name, module in model.named_modules():
            torch.manual_seed(key(seed, "start", name))
            model.initialise(module)
    layout = Layout(model, ALIGNMENT.get(device.type, 1) if device else 1)
    tensors = dict(model.named_parameters()) | dict(model.named_buffers())
    row = torch.zeros(layout.size, dtype=layout.dtype)
    for entry in layout.entries:
        entry.view(row).copy_(tensors[entry.name].detach())
    return model, layout, row
