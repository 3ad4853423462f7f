"""How long a training image takes: from measured speeds, scaled by multiply-accumulates (MACs).

benchmarks/costs.csv contains the images a second that FedAvg trained of a network on a device. Another
network takes as many MACs a second as the row of the device whose MACs of an image are nearest, of the same
precision where there is one. A device without any row does ASSUMED.

benchmarks/methods.csv contains how many times as long as FedAvg a method takes for an image, on the small
network MEASURED_ON. Passes of images through the network cost in proportion to it. The rest is work on
feature maps and weights, whose share falls with the cube root of the MACs: when FDSE's factor there was 2.41,
it was 1.19 on AlexNet at 256 px (docs/fdse.md), which has 259 times the MACs: an exponent of 0.36.
"""

from __future__ import annotations

import csv
import functools
import io
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from fedshift.common.errors import FedshiftError
from fedshift.common.files import read_text
from fedshift.common.registry import get
from fedshift.common.tensors import shapes_only
from fedshift.federation.cost import macs_per_image
from fedshift.planning.hashes import COSTS, FACTORS
from fedshift.spec import RunSpec
from fedshift.storage.workspace import Workspace

ASSUMED = {"cpu": 5e9, "cuda": 2e11}  # forward MACs a second in training, below every row of costs.csv
MEASURED_ON, MEASURED_EPOCHS = ("digits_cnn", 32), 2  # benchmarks/methods.csv
Read = TypeVar("Read")


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

    @property
    def name(self) -> str:
        return f"{self.model} at {self.px} px in {self.precision}"


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
    """The rows of benchmarks/costs.csv. Raises FedshiftError for one that cannot be read."""

    def read(row: dict[str, str]) -> Row:
        px, images_per_second = int(row["input_px"]), float(row["images_per_second"])
        return Row(row["model"], px, row["device"], row["precision"], images_per_second)

    return tuple(_rows(workspace.root / COSTS, read))


@functools.cache
def factors(workspace: Workspace) -> dict[str, Factor]:
    """The rows of benchmarks/methods.csv by method. Raises FedshiftError for one that cannot be read."""

    def read(row: dict[str, str]) -> tuple[str, Factor]:
        passes, outside = float(row.get("passes") or 1), float(row.get("outside") or 0)
        return row["method"], Factor(float(row["factor"]), passes, outside)

    return dict(_rows(workspace.root / FACTORS, read))


def speed(workspace: Workspace, spec: RunSpec, device: str) -> Speed:
    """How fast FedAvg would train the network of a run on a device: as measured, else estimated.

    Raises FedshiftError where costs.csv names an unknown network.
    """
    rows = [row for row in measured(workspace) if row.device == device]
    model, px, precision = spec.model.name, spec.data.input_px, spec.local.precision
    for row in rows:
        if (model, px, precision) == (row.model, row.px, row.precision):
            return Speed(row.images_per_second, row.name, True)
    own = plain_macs(model, px)
    if not rows:
        return Speed(
            ASSUMED[device] / own, f"{ASSUMED[device]:.0e} multiply-accumulates a second, assumed", False
        )
    alike = [row for row in rows if row.precision == precision] or rows
    macs = {row: plain_macs(row.model, row.px, COSTS) for row in alike}
    nearest = min(alike, key=lambda row: abs(math.log(macs[row] / own)))
    return Speed(nearest.images_per_second * macs[nearest] / own, nearest.name, False)


@functools.cache
def plain_macs(model: str, px: int, where: str = "registry") -> int:
    """Multiply-accumulates of one forward pass of one image through a model with its default options and ten
    classes, without a method. Raises FedshiftError at `where` for an unknown model.
    """
    kind = get("models", model, where)
    with shapes_only():
        network = kind(10, px)
    return macs_per_image(network, px)


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


def _rows(path: Path, read: Callable[[dict[str, str]], Read]) -> list[Read]:
    """What `read` makes of each row of a CSV file; nothing where it is absent. Raises FedshiftError that
    names the line of a row that lacks a column, or has a word for a number.
    """
    if not path.is_file():
        return []
    rows = csv.DictReader(io.StringIO(read_text(path)))
    try:
        return [read(row) for row in rows]
    except (KeyError, TypeError, ValueError) as error:  # TypeError: the row ends before the column
        told = f"no column {error}" if isinstance(error, KeyError) else str(error)
        where, cure = f"{path}, line {rows.line_num}", "Mend the file: benchmarks/README.md."
        raise FedshiftError(where, f"cannot be read: {told}", cure) from None
