"""How long a step takes at least, from what it asks of a device: devices.csv beside this module has what
devices can do.

A device launches operations, moves bytes and computes at the same time, so that the slowest of the three is
the time of a step (Williams et al., "Roofline", CACM 2009, with launches as a third roof). Real steps take
longer: kernels reach no peak, and what waits for another operation does not overlap with it.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from fedshift.common.files import read_rows
from fedshift.federation.launches import Count

Bound = Literal["launches", "bytes", "flops"]


@dataclass(frozen=True)
class Device:
    """A row of devices.csv.

    kind: "cpu" or "cuda".
    launch: seconds from one operation to the next, where the host does not keep up.
    bandwidth: bytes a second.
    peak: floating-point operations a second of matrix products, by precision.
    """

    name: str
    kind: str
    launch: float
    bandwidth: float
    peak: dict[str, float]


@functools.cache
def devices() -> dict[str, Device]:
    """The rows of devices.csv by name."""
    return {row["device"]: _device(row) for row in read_rows(Path(__file__).with_name("devices.csv"))}


def _device(row: dict[str, str]) -> Device:
    peak = {name: 1e12 * float(row[f"{name}_tflops"]) for name in ("fp32", "tf32", "bf16")}
    return Device(
        row["device"], row["kind"], float(row["launch_us"]) / 1e6, float(row["gb_per_s"]) * 1e9, peak
    )


def seconds(step: Count, device: Device, precision: str) -> tuple[float, Bound]:
    """The least time of a step, and what bounds it."""
    times: dict[Bound, float] = {
        "launches": step.launches * device.launch,
        "bytes": step.bytes / device.bandwidth,
        "flops": step.flops / device.peak[precision],
    }
    bound = max(times, key=lambda name: times[name])
    return times[bound], bound
