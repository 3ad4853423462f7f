"""Costs of a run: arithmetic, passes, bytes of a model, memory."""

import contextlib
import resource
import sys
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from fedshift.models.base import Model

COUNTED = ("aten.convolution", "aten.addmm", "aten.mm")  # not aten.bmm: average pooling is written as one


def macs_per_image(model: nn.Module, px: int) -> int:
    """Multiply-accumulates of convolutions and linear layers for one image; `model` on the meta device."""
    from torch.utils.flop_counter import FlopCounterMode  # imports triton: 0.2 s, which no other use needs

    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model.eval()(torch.empty(1, 3, px, px, device="meta"))
    counted = counter.get_flop_counts()["Global"]
    return sum(int(flops) for operation, flops in counted.items() if str(operation) in COUNTED) // 2


def state_dict_bytes(model: nn.Module) -> int:
    """Bytes of a complete state dict, integer counters included."""
    return sum(tensor.nbytes for tensor in model.state_dict().values())


def peak_memory_mb(device: torch.device) -> float:
    """Peak memory in MiB: of the device's allocator, or of this process on the CPU."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20


class Passes:
    """Counts images that go through a run's networks, forward and backward, in `with passes.counted():`.

    A pass through one of a network's stages counts as that fraction of a pass.
    """

    def __init__(self) -> None:
        self.forward = self.backward = 0  # images through single stages
        self._stages, self.counting = 1, False

    @contextlib.contextmanager
    def counted(self, on: bool = True) -> Iterator[None]:
        """Switch counting on in the block, or off for a method's own measurements."""
        was, self.counting = self.counting, on
        try:
            yield
        finally:
            self.counting = was

    def watch(self, model: Model) -> Model:
        """Count passes through a network from now on; a network without stages has no passes."""
        stages = [*getattr(model, "stages", nn.ModuleDict()).values()]
        self._stages = max(1, len(stages))
        for stage in stages:
            stage.register_forward_hook(self._passed)
        return model

    def take(self) -> dict[str, float]:
        """forward_passes and backward_passes (images) since the last call."""
        forward, backward = self.forward / self._stages, self.backward / self._stages
        self.forward = self.backward = 0
        return {"forward_passes": forward, "backward_passes": backward}

    def _passed(self, stage: nn.Module, inputs: Any, output: Tensor) -> None:
        if self.counting:
            images = len(output)
            self.forward += images
            if output.requires_grad:
                output.register_hook(lambda gradient: self._returned(images))

    def _returned(self, images: int) -> None:
        if self.counting:
            self.backward += images
