"""What a run costs, before it is made: images, minutes, memory, disk; from speeds in benchmarks/costs.csv.

images = rounds * local epochs * participation * training images of all clients (of each the number that a rendering
makes), plus evaluations, each image of which takes a third of the time. Training takes as much longer as the method's round
does than FedAvg's in benchmarks/methods.csv. Where nothing was measured, the slowest plausible speed is taken, so that no
job is ended by its time limit.
"""

from __future__ import annotations

import csv
import functools
from dataclasses import dataclass
from pathlib import Path

from fedshift.data.rendering import made
from fedshift.data.verify import manifest
from fedshift.errors import FedshiftError
from fedshift.planfile import COSTS, FACTORS
from fedshift.registry import get
from fedshift.spec import RunSpec
from fedshift.workspace import Workspace

UNKNOWN_DOMAIN = 2500  # images, where a data set has no manifest yet
UNKNOWN_MODEL_MB = 100.0
START_MINUTES = 0.5  # imports, reading images, first batches
EVALUATION = 1 / 3  # of a training pass: forward only
BASE_MB = 2000  # torch itself, one batch, the metrics; two Snakemake processes on Slurm
UNKNOWN_SPEED = {"cpu": 4e5, "cuda": 4e7}  # squared pixels per second: 390 images/s at 32 px on one CPU core


@dataclass(frozen=True)
class Speed:
    """Training speed of a model on a device (images/s), its weights (MB), and where both come from."""

    images_per_second: float
    model_mb: float
    source: str


@dataclass(frozen=True)
class Cost:
    """Images trained and evaluated, minutes, memory and disk of one run."""

    images: int
    minutes: float
    mem_mb: int
    disk_mb: int


@functools.cache
def measured(root: Path) -> dict[tuple[str, int, str, str], Speed]:
    """The rows of benchmarks/costs.csv by (model, input_px, device, precision)."""
    path = root / COSTS
    if not path.is_file():
        return {}
    with open(path, newline="") as file:
        return {
            (row["model"], int(row["input_px"]), row["device"], row["precision"]): Speed(
                float(row["images_per_second"]), float(row["model_mb"]), row["source"]
            )
            for row in csv.DictReader(file)
        }


def speed(root: Path, spec: RunSpec, device: str) -> Speed:
    """The measured speed for a spec on a device, else a cautious guess whose source is ""."""
    known = measured(root).get((spec.model.name, spec.data.input_px, device, spec.local.precision))
    return known or Speed(UNKNOWN_SPEED[device] / spec.data.input_px**2, UNKNOWN_MODEL_MB, "")


@functools.cache
def factors(root: Path) -> dict[str, float]:
    """Seconds of a method's round over FedAvg's, from benchmarks/methods.csv (small network: what a method does besides
    training weighs more there, so this is rather too much than too little)."""
    path = root / FACTORS
    if not path.is_file():
        return {}
    with open(path, newline="") as file:
        return {row["method"]: float(row["factor"]) for row in csv.DictReader(file)}


def cost(workspace: Workspace, spec: RunSpec, device: str) -> Cost:
    """Estimate one run on one device."""
    sizes = dict(_sizes(workspace, spec.data.dataset, spec.data.release))
    held_out = sum(sizes.pop(domain, 0) for domain in spec.data.held_out)
    sources = sum(sizes.values())
    train, rounds = spec.partition.fractions[0], spec.federation.rounds
    copies = made(spec).copies if get("methods", spec.method.name).rendering else 1
    trained = rounds * spec.local.epochs * spec.federation.participation * train * sources * copies
    evaluated = (rounds / spec.evaluation.every + 1) * ((1 - train) * sources + held_out)
    known = speed(workspace.root, spec, device)
    longer = max(1.0, factors(workspace.root).get(spec.method.name, 1.0))
    seconds = (longer * trained + EVALUATION * evaluated) / known.images_per_second
    kept = 0 if spec.evaluation.keep == "none" else 2
    rows = len(sizes) + 2
    return Cost(
        images=round(trained + evaluated),
        minutes=round(START_MINUTES + seconds / 60, 2),
        mem_mb=round(BASE_MB + 4 * rows * known.model_mb),
        disk_mb=round((kept + 1) * rows * known.model_mb) + 1,
    )


@functools.cache
def _sizes(workspace: Workspace, name: str, release: str) -> dict[str, int]:
    """Images per domain, from the manifest if there is one."""
    try:
        counts = manifest(workspace, name, release)["counts"]
    except FedshiftError:
        return dict.fromkeys(get("datasets", name).domains, UNKNOWN_DOMAIN)
    return {domain: sum(classes.values()) for domain, classes in counts.items()}
