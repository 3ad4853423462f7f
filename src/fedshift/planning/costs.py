"""Estimates of a run's costs before it is trained: images, minutes, memory, disk.

images = rounds * local epochs * training images of the participating clients * copies by a rendering, plus
evaluations. An evaluated image takes a third of the time. Memory and disk come from the size of the weights
that a run saves.

benchmarks/costs.csv contains images per second of FedAvg for a network on a device. Another network is
assumed to compute as many multiply-accumulates (MACs) per second as the device's row with the nearest MACs
per image, of the same precision if there is one. A device without rows computes ASSUMED.

benchmarks/methods.csv contains the time of a method per image relative to FedAvg, on the small network
MEASURED_ON. Passes of images through the network cost in proportion to it. The rest is work on feature maps
and weights, whose share falls with the cube root of the MACs (docs/fdse.md).
"""

import functools
import math
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from fedshift.common.errors import FedshiftError, unknown
from fedshift.common.files import read_rows
from fedshift.common.registry import get
from fedshift.common.tensors import shapes_only
from fedshift.data.verify import manifest
from fedshift.federation.cost import macs_per_image
from fedshift.federation.layout import Layout
from fedshift.federation.method import Method
from fedshift.planning.planfile import COSTS, FACTORS
from fedshift.spec import RunSpec
from fedshift.spec.block import Block, closed, params
from fedshift.storage.workspace import Workspace

UNKNOWN_DOMAIN = 2500  # images, where a data set has neither a manifest yet nor published counts
UNKNOWN_DOMAINS = 4  # of a folder that was not fetched yet
UNKNOWN_CLASSES = 10
START_MINUTES = 0.5  # imports, reading images, first batches
EVALUATION = 1 / 3  # of a training pass: forward only
BASE_MB = 3000  # torch itself, one batch, the metrics; two Snakemake processes on Slurm
MB_PER_FLOAT = 4 / 1e6
IN_MEMORY = 4  # times the state: itself, gradients, averages, optimisers, a checkpoint that is being written
SELECTIONS = 3  # rounds whose weights stay: the last, the first and the later best
_layout = functools.cache(Layout)


class Counts(NamedTuple):
    """Images by domain, number of classes, and their source: "manifest", "published", "" for a guess."""

    images: dict[str, int]
    classes: int
    source: str


class Cost(NamedTuple):
    """Costs of one run: images trained and evaluated, minutes, memory, disk, and the disk space that stays
    in use.
    """

    images: int
    minutes: float
    mem_mb: int
    disk_mb: int
    kept_mb: int


def cost(workspace: Workspace, spec: RunSpec, device: str) -> Cost:
    """Estimate one run on one device.

    Raises FedshiftError if the method does not fit the model, and for a domain that the manifest does not
    have.
    """
    counted = counts(workspace, spec.data.dataset, spec.data.release)
    sizes = dict(counted.images)
    for domain in spec.data.held_out if counted.source == "manifest" else ():
        if domain not in sizes:
            raise unknown(f"{spec.data.dataset} {spec.data.release}: target", "domain", domain, sizes)
    if not {*sizes} - {*spec.data.held_out}:
        where, what = f"{spec.data.dataset} {spec.data.release}", "no source domain is left to train on"
        raise FedshiftError(where, what, "Hold out fewer domains, or none: target: null.")
    held_out = sum(sizes.pop(domain, 0) for domain in spec.data.held_out)
    sources = sum(sizes.values())
    train, rounds = spec.partition.fractions[0], spec.federation.rounds
    copies = rendering.copies if (rendering := spec.rendering) else 1
    active, clients = taking_part(spec, len(sizes))
    trained = rounds * spec.local.epochs * active / clients * train * sources * copies
    evaluated = (rounds / spec.evaluation.every + 1) * ((1 - train) * sources + held_out)
    passed = factor(workspace, spec) * trained + EVALUATION * evaluated
    seconds = passed / speed(workspace, spec, device).images_per_second
    weights, slots = floats(spec, counted.classes, clients)
    state_mb = (3 * weights + slots) * MB_PER_FLOAT  # the present weights and those of two best rounds
    kept_mb = 1 if spec.evaluation.keep == "none" else round(SELECTIONS * weights * MB_PER_FLOAT) + 1
    return Cost(
        images=round(trained + evaluated),
        minutes=round(START_MINUTES + seconds / 60, 2),
        mem_mb=round(BASE_MB + IN_MEMORY * state_mb),
        disk_mb=round(2 * state_mb) + kept_mb,
        kept_mb=kept_mb,
    )


def taking_part(spec: RunSpec, sources: int) -> tuple[int, int]:
    """Number of clients that train in a round, and of all clients; one of one if the method pools them."""
    if spec.method.build().clients == "pooled":
        return 1, 1
    scheme = get("partitions", spec.partition.scheme)
    clients = scheme(params(scheme, spec.partition.params)).clients(sources)
    return max(1, round(spec.federation.participation * clients)), clients


def floats(spec: RunSpec, classes: int, clients: int) -> tuple[int, int]:
    """Floats of the weights that a run saves of a round, and of the method's other state.

    Weights are the global model, or each client's, and the clients' private entries. Raises FedshiftError if
    the method does not fit the model.
    """
    method = spec.method.build()
    layout: Layout = _layout(spec.network(classes))
    several = (
        method.generates or spec.evaluation.keep == "clients" or method.evaluates not in ("model", "shared")
    )
    own = layout.size if several else (method.personal(layout) | method.local(layout)).size
    one = method.averages or type(method).round is not Method.round  # client's weights at a time
    slots = layout.size * (1 if one else clients)
    named = {"model": layout.size, "w": layout.P}
    for slot in (slot for slot in method.slots if slot.name != method.evaluates):
        size = math.prod(slot.like(layout, clients)) if callable(slot.like) else named[slot.like]
        slots += size * (clients if slot.owner == "client" else 1)
    return layout.size + clients * own, slots


@functools.cache
def counts(workspace: Workspace, name: str, release: str) -> Counts:
    """The size of a data set: from its manifest, else as published, else a guess."""
    dataset = get("datasets", name)()
    try:
        by_class = manifest(workspace, name, release)["counts"]
    except FedshiftError:
        classes = len(dataset.classes) or UNKNOWN_CLASSES
        if published := dataset.release(release).counts:
            return Counts(dict(published), classes, "published")
        domains = dataset.domains or range(UNKNOWN_DOMAINS)
        return Counts({str(domain): UNKNOWN_DOMAIN for domain in domains}, classes, "")
    images = {domain: sum(classes.values()) for domain, classes in by_class.items()}
    return Counts(images, len({name for classes in by_class.values() for name in classes}), "manifest")


ASSUMED = {"cpu": 5e9, "cuda": 2e11}  # forward MACs a second in training, below every row of costs.csv
MEASURED_ON, MEASURED_EPOCHS = ("digits_cnn", 32), 2  # benchmarks/methods.csv


class Speed(NamedTuple):
    """Images per second in FedAvg's training, their source, and whether this exact case was measured."""

    images_per_second: float
    source: str
    measured: bool


class Row(BaseModel):
    """A row of benchmarks/costs.csv: images per second of FedAvg."""

    model_config = ConfigDict(frozen=True)
    model: str
    input_px: int
    device: str
    precision: str
    images_per_second: float = Field(gt=0)

    @property
    def name(self) -> str:
        return f"{self.model} at {self.input_px} px in {self.precision}"


class Factor(BaseModel):
    """A row of benchmarks/methods.csv: costs of a method relative to FedAvg."""

    method: str
    factor: float  # of the seconds for a training image
    passes: float = 1.0  # of images through networks, in local steps
    outside: float = 0.0  # passes before or after the local steps, once a round


@functools.cache
def measured(workspace: Workspace) -> list[Row]:
    """The rows of benchmarks/costs.csv. Raises FedshiftError for an invalid one."""
    return _rows(workspace.root / COSTS, Row)


@functools.cache
def factors(workspace: Workspace) -> dict[str, Factor]:
    """The rows of benchmarks/methods.csv by method. Raises FedshiftError for an invalid one."""
    return {row.method: row for row in _rows(workspace.root / FACTORS, Factor)}


def _rows(path: Path, kind: type[Block]) -> list[Block]:
    """The rows of a CSV file, if there is one. Raises FedshiftError, with the line, for an invalid one."""
    rows = read_rows(path) if path.is_file() else []
    given = ({name: text for name, text in row.items() if text} for row in rows)
    return [closed(kind, row, f"{path}, line {number}") for number, row in enumerate(given, 2)]


def speed(workspace: Workspace, spec: RunSpec, device: str) -> Speed:
    """Training speed of FedAvg with a run's network on a device: as measured, else estimated.

    Raises FedshiftError if costs.csv names an unknown network.
    """
    rows = [row for row in measured(workspace) if row.device == device]
    model, px, precision = spec.model.name, spec.data.input_px, spec.local.precision
    for row in rows:
        if (model, px, precision) == (row.model, row.input_px, row.precision):
            return Speed(row.images_per_second, row.name, True)
    own, assumed = plain_macs(model, px), ASSUMED[device]
    if not rows:
        return Speed(assumed / own, f"{assumed:.0e} multiply-accumulates a second, assumed", False)
    alike = [row for row in rows if row.precision == precision] or rows
    macs = {row: plain_macs(row.model, row.input_px, COSTS) for row in alike}
    nearest = min(alike, key=lambda row: abs(math.log(macs[row] / own)))
    return Speed(nearest.images_per_second * macs[nearest] / own, nearest.name, False)


@functools.cache
def plain_macs(model: str, px: int, where: str = "registry") -> int:
    """Multiply-accumulates of one forward pass of one image through a model, without a method.

    The model has its default options and ten classes. Raises FedshiftError at `where` for an unknown model.
    """
    kind = get("models", model, where)
    with shapes_only():
        network = kind(10, px)
    return macs_per_image(network, px)


def factor(workspace: Workspace, spec: RunSpec) -> float:
    """Time per image of a run's method relative to FedAvg; at least 1."""
    if spec.method.name not in factors(workspace):
        return 1.0
    row, smaller = factors(workspace)[spec.method.name], plain_macs(*MEASURED_ON)
    share = min(1.0, smaller / plain_macs(spec.model.name, spec.data.input_px)) ** (1 / 3)
    rest = max(0.0, row.factor - row.passes - row.outside / MEASURED_EPOCHS)
    return max(1.0, row.passes + row.outside / spec.local.epochs + share * rest)
