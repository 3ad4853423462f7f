"""What a run costs: arithmetic, bytes of a model, memory."""

from __future__ import annotations

import resource
import sys

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

COUNTED = ("aten.convolution", "aten.addmm", "aten.mm")  # not aten.bmm: average pooling is written as one


def macs_per_image(model: nn.Module, px: int) -> int:
    """Multiply-accumulates of convolutions and linear layers in one forward pass of one image; `model` on the meta device."""
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model.eval()(torch.empty(1, 3, px, px, device="meta"))
    counted = counter.get_flop_counts()["Global"]
    return sum(int(flops) for operation, flops in counted.items() if str(operation) in COUNTED) // 2


def state_dict_bytes(model: nn.Module) -> int:
    """Bytes of a complete state dict, integer counters included."""
    return sum(tensor.nbytes for tensor in model.state_dict().values())


def peak_memory_mb(device: torch.device) -> float:
    """Highest memory so far, in MiB: of the device's allocator, or of this process on the CPU."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20
