"""What a run costs, before it is made: images, minutes, memory, disk; from speeds in benchmarks/costs.csv.

images = rounds * local epochs * participation * training images of all clients (of each the number that a rendering
makes), plus evaluations, each image of which takes a third of the time. Training takes as much longer as the method does
for an image than FedAvg in benchmarks/methods.csv. Where nothing was measured, the slowest plausible speed is taken, so that no
job is ended by its time limit. Memory and disk come from the sizes of the run's state (fedshift.planning.footprint); a checkpoint lies
there twice while it is replaced.
"""

from __future__ import annotations

import csv
import functools
from dataclasses import dataclass
from pathlib import Path

from fedshift.data.rendering import made
from fedshift.data.verify import manifest
from fedshift.errors import FedshiftError
from fedshift.planning.footprint import footprint
from fedshift.planning.planfile import COSTS, FACTORS
from fedshift.registry import get
from fedshift.spec import RunSpec
from fedshift.workspace import Workspace

UNKNOWN_DOMAIN = 2500  # images, where a data set has neither a manifest yet nor published counts
UNKNOWN_DOMAINS = 4  # of a folder that was not fetched yet
UNKNOWN_CLASSES = 10
START_MINUTES = 0.5  # imports, reading images, first batches
EVALUATION = 1 / 3  # of a training pass: forward only
BASE_MB = 2000  # torch itself, one batch, the metrics; two Snakemake processes on Slurm
MB_PER_FLOAT = 4 / 1e6
COPIES = 3  # of the state in memory: itself, gradients and averages, the bytes of the checkpoint that is being written
SELECTIONS = 3  # rounds whose weights stay: the last, the first and the later best
UNKNOWN_SPEED = {"cpu": 4e5, "cuda": 4e7}  # squared pixels per second: 390 images/s at 32 px on one CPU core


@dataclass(frozen=True)
class Speed:
    """Training speed of a model on a device (images/s), and where it comes from."""

    images_per_second: float
    source: str


@dataclass(frozen=True)
class Counts:
    """Images by domain and the number of classes, and where they come from: "manifest", "published", or "" for a guess."""

    images: dict[str, int]
    classes: int
    source: str


@dataclass(frozen=True)
class Cost:
    """Images trained and evaluated, minutes, memory and disk of one run while it trains, and what of the disk it keeps."""

    images: int
    minutes: float
    mem_mb: int
    disk_mb: int
    kept_mb: int


@functools.cache
def measured(root: Path) -> dict[tuple[str, int, str, str], Speed]:
    """The rows of benchmarks/costs.csv by (model, input_px, device, precision)."""
    return {
        (row["model"], int(row["input_px"]), row["device"], row["precision"]): Speed(
            float(row["images_per_second"]), row["source"]
        )
        for row in _rows(root / COSTS)
    }


def speed(root: Path, spec: RunSpec, device: str) -> Speed:
    """The measured speed for a spec on a device, else a cautious guess whose source is ""."""
    known = measured(root).get((spec.model.name, spec.data.input_px, device, spec.local.precision))
    return known or Speed(UNKNOWN_SPEED[device] / spec.data.input_px**2, "")


@functools.cache
def factors(root: Path) -> dict[str, float]:
    """Seconds of a method for an image that it trains on, over FedAvg's, from benchmarks/methods.csv.

    Measured on a small network, where what a method does besides training weighs more: rather too much than too little.
    """
    return {row["method"]: float(row["factor"]) for row in _rows(root / FACTORS)}


def _rows(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file, none where it is absent."""
    if not path.is_file():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def cost(workspace: Workspace, spec: RunSpec, device: str) -> Cost:
    """Estimate one run on one device. Raises FedshiftError where the method does not suit the model."""
    counted = counts(workspace, spec.data.dataset, spec.data.release)
    sizes = dict(counted.images)
    held_out = sum(sizes.pop(domain, 0) for domain in spec.data.held_out)
    sources = sum(sizes.values())
    train, rounds = spec.partition.fractions[0], spec.federation.rounds
    copies = made(spec).copies if get("methods", spec.method.name).rendering else 1
    trained = rounds * spec.local.epochs * spec.federation.participation * train * sources * copies
    evaluated = (rounds / spec.evaluation.every + 1) * ((1 - train) * sources + held_out)
    known = speed(workspace.root, spec, device)
    longer = max(1.0, factors(workspace.root).get(spec.method.name, 1.0))
    seconds = (longer * trained + EVALUATION * evaluated) / known.images_per_second
    state = footprint(spec, len(sizes), counted.classes)
    kept_mb = round(SELECTIONS * state.weights * MB_PER_FLOAT) + 1
    return Cost(
        images=round(trained + evaluated),
        minutes=round(START_MINUTES + seconds / 60, 2),
        mem_mb=round(BASE_MB + COPIES * state.checkpoint * MB_PER_FLOAT),
        disk_mb=round(2 * state.checkpoint * MB_PER_FLOAT) + kept_mb,
        kept_mb=kept_mb,
    )


@functools.cache
def counts(workspace: Workspace, name: str, release: str) -> Counts:
    """What is known of a data set's size: from its manifest, else as published, else a guess."""
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
