"""What a run costs, before it is made: images, minutes, memory, disk.

images = rounds * local epochs * training images of the clients that take part (of each the number that a
rendering makes), plus evaluations, each image of which takes a third of the time. How long an image takes
fedshift.planning.rates tells. Memory and disk come from the sizes of the run's state
(fedshift.planning.footprint); a checkpoint lies there twice while it is replaced.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

from fedshift.build import rendering_of
from fedshift.common.errors import FedshiftError, unknown
from fedshift.common.registry import get
from fedshift.data.verify import manifest
from fedshift.planning.footprint import footprint, taking_part
from fedshift.planning.rates import factor, speed
from fedshift.spec import RunSpec
from fedshift.storage.workspace import Workspace

UNKNOWN_DOMAIN = 2500  # images, where a data set has neither a manifest yet nor published counts
UNKNOWN_DOMAINS = 4  # of a folder that was not fetched yet
UNKNOWN_CLASSES = 10
START_MINUTES = 0.5  # imports, reading images, first batches
EVALUATION = 1 / 3  # of a training pass: forward only
BASE_MB = 2000  # torch itself, one batch, the metrics; two Snakemake processes on Slurm
MB_PER_FLOAT = 4 / 1e6
# of the state in memory: itself, gradients and averages, the bytes of the checkpoint that is being written
COPIES = 3
SELECTIONS = 3  # rounds whose weights stay: the last, the first and the later best


@dataclass(frozen=True)
class Counts:
    """Images by domain and the number of classes, and where they come from: "manifest", "published", or ""
    for a guess.
    """

    images: dict[str, int]
    classes: int
    source: str


@dataclass(frozen=True)
class Cost:
    """Images trained and evaluated, minutes, memory and disk of one run while it trains, and what of the disk
    it keeps.
    """

    images: int
    minutes: float
    mem_mb: int
    disk_mb: int
    kept_mb: int


def cost(workspace: Workspace, spec: RunSpec, device: str) -> Cost:
    """Estimate one run on one device. Raises FedshiftError where the method does not suit the model, and for
    a domain that the manifest does not have.
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
    copies = rendering.copies if (rendering := rendering_of(spec)) else 1
    active, clients = taking_part(spec, len(sizes))
    trained = rounds * spec.local.epochs * active / clients * train * sources * copies
    evaluated = (rounds / spec.evaluation.every + 1) * ((1 - train) * sources + held_out)
    known = speed(workspace, spec, device)
    longer = factor(workspace, spec)
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
