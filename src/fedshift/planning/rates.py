"""How long a training image takes: from measured speeds, by multiply-accumulates (MACs), precision and
device.

A row of benchmarks/costs.csv says how many images a second FedAvg trained of a network on a device. It speaks
for other networks by two assumptions: an image of a network with more MACs takes longer, and no longer than
in proportion to them. So the row bounds the time of a smaller network by its own, and that of a larger one by
its own times the ratio of MACs; the least of all rows' bounds is taken. A row of a slower precision counts as
it is, one of a faster precision by SPEEDUP. On a device without any row, ASSUMED is taken.

benchmarks/methods.csv says how many times as long as FedAvg a method takes for an image, on the small network
MEASURED_ON. Passes of images through the network cost in proportion to it. The rest is work on feature maps
and weights, whose share falls with the cube root of the MACs: FDSE's factor is 2.41 there and 1.19 on AlexNet
at 256 px (docs/fdse.md), which has 259 times the MACs: an exponent of 0.36.
"""

from __future__ import annotations

import csv
import functools
from dataclasses import dataclass, replace
from pathlib import Path

from fedshift.planning.hashes import COSTS, FACTORS
from fedshift.planning.network import macs, plain_macs
from fedshift.spec import RunSpec
from fedshift.workspace import Workspace

# MACs of forward passes in a second of training, in fp32: one thread of a CPU with AVX2; a data-centre GPU
# like NVIDIA's A100.
ASSUMED = {"cpu": 5e9, "cuda": 2e12}
# Training speed over fp32's where there are units for it. cpu: AlexNet at 224 px in a bare loop on the CPU of
# costs.csv, which has AMX
# (56.5 against 17.6 CPU seconds a round); cuda: not measured, far less than vendors tell of matrix products.
SPEEDUP = {"cpu": {"fp32": 1.0, "tf32": 1.0, "bf16": 3.2}, "cuda": {"fp32": 1.0, "tf32": 1.5, "bf16": 2.0}}
STEP_SECONDS = {
    "cpu": 0.0,
    "cuda": 0.005,
}  # of a step that was not measured, at least: a GPU waits for launches
MEASURED_ON, MEASURED_EPOCHS = ("digits_cnn", 32), 2  # benchmarks/methods.csv


@dataclass(frozen=True)
class Speed:
    """Images a second that FedAvg trains on, what that is taken from, and whether it was measured: this
    network, device and precision.
    """

    images_per_second: float
    source: str
    measured: bool


@dataclass(frozen=True)
class Row:
    """A row of benchmarks/costs.csv: images per second of FedAvg."""

    model: str
    px: int
    device: str
    precision: str
    images_per_second: float

    def speed(self, spec: RunSpec, work: int) -> Speed:
        """What it says of a run with a network of `work` MACs on the same device."""
        ratio = SPEEDUP[self.device][self.precision] / SPEEDUP[self.device][spec.local.precision]
        longer = max(1.0, work / plain_macs(self.model, self.px, COSTS)) * max(1.0, ratio)
        there = (self.model, self.px, self.precision)
        same = there == (spec.model.name, spec.data.input_px, spec.local.precision)
        return Speed(self.images_per_second / longer, "{} at {} px in {}".format(*there), same)


@dataclass(frozen=True)
class Factor:
    """A row of benchmarks/methods.csv: seconds for a training image over FedAvg's; its passes through
    networks over FedAvg's.

    passes: in local steps, for each epoch; outside: before or after them, once a round.
    """

    seconds: float
    passes: float
    outside: float


@functools.cache
def measured(workspace: Workspace) -> tuple[Row, ...]:
    """The rows of benchmarks/costs.csv."""
    return tuple(
        Row(
            row["model"],
            int(row["input_px"]),
            row["device"],
            row["precision"],
            float(row["images_per_second"]),
        )
        for row in _rows(workspace.root / COSTS)
    )


@functools.cache
def factors(workspace: Workspace) -> dict[str, Factor]:
    """The rows of benchmarks/methods.csv by method."""
    return {
        row["method"]: Factor(
            float(row["factor"]), float(row.get("passes") or 1), float(row.get("outside") or 0)
        )
        for row in _rows(workspace.root / FACTORS)
    }


def speed(workspace: Workspace, spec: RunSpec, classes: int, device: str) -> Speed:
    """How fast FedAvg would train the network of a run on a device: as measured, else the best that can be
    reckoned, else assumed.

    Raises FedshiftError where the method does not suit the network, or costs.csv names an unknown one.
    """
    work = macs(spec, classes)
    found = [row.speed(spec, work) for row in measured(workspace) if row.device == device]
    best = max(found or [_assumed(spec, work, device)], key=lambda one: (one.measured, one.images_per_second))
    if best.measured or not STEP_SECONDS[device]:
        return best
    return replace(
        best, images_per_second=min(best.images_per_second, spec.local.batch / STEP_SECONDS[device])
    )


def _assumed(spec: RunSpec, work: int, device: str) -> Speed:
    """Of a CPU no unit for bf16 is assumed."""
    rate = ASSUMED[device] * (SPEEDUP[device][spec.local.precision] if device == "cuda" else 1)
    return Speed(rate / work, f"{rate / 1e9:,.0f} GMAC/s, assumed", False)


def factor(workspace: Workspace, spec: RunSpec) -> float:
    """How many times as long as FedAvg a run's method takes for an image of its network; never less, so that
    no time limit is.
    """
    if spec.method.name not in factors(workspace):
        return 1.0
    row, smaller = factors(workspace)[spec.method.name], plain_macs(*MEASURED_ON)
    share = min(1.0, smaller / plain_macs(spec.model.name, spec.data.input_px)) ** (1 / 3)
    rest = max(0.0, row.seconds - row.passes - row.outside / MEASURED_EPOCHS)
    return max(1.0, row.passes + row.outside / spec.local.epochs + share * rest)


def _rows(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file, none where it is absent."""
    if not path.is_file():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))
