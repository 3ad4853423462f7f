"""What a run costs, before it is made: images, minutes, memory, disk.

images = rounds * local epochs * training images of the clients that take part (of each the number that a
rendering makes), plus evaluations, each image of which takes a third of the time. How long an image takes
fedshift.planning.rates tells. Memory and disk come from the size of the weights that a run saves.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

from fedshift.build import method_of, model_of, rendering_of
from fedshift.common.errors import FedshiftError, unknown
from fedshift.common.files import canonical_json
from fedshift.common.registry import get
from fedshift.common.tensors import shapes_only
from fedshift.data.verify import manifest
from fedshift.federation.layout import Layout
from fedshift.federation.method import Method
from fedshift.planning.rates import factor, speed
from fedshift.spec import RunSpec
from fedshift.spec.resolve import params
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
    weights, slots = floats(spec, counted.classes, clients)
    state_mb = (3 * weights + slots) * MB_PER_FLOAT  # beside the present weights those of two best rounds
    kept_mb = 1 if spec.evaluation.keep == "none" else round(SELECTIONS * weights * MB_PER_FLOAT) + 1
    return Cost(
        images=round(trained + evaluated),
        minutes=round(START_MINUTES + seconds / 60, 2),
        mem_mb=round(BASE_MB + IN_MEMORY * state_mb),
        disk_mb=round(2 * state_mb) + kept_mb,
        kept_mb=kept_mb,
    )


def taking_part(spec: RunSpec, sources: int) -> tuple[int, int]:
    """How many clients train in a round, of how many: one of one where the method pools them."""
    if method_of(spec).clients == "pooled":
        return 1, 1
    scheme = get("partitions", spec.partition.scheme)
    clients = scheme(params(scheme, spec.partition.params)).clients(sources)
    return max(1, round(spec.federation.participation * clients)), clients


def floats(spec: RunSpec, classes: int, clients: int) -> tuple[int, int]:
    """Floats of the weights that a run saves of a round, and of what its method keeps beside them. Weights
    are the global model, or each client's, and what clients have of their own. Raises FedshiftError where the
    method does not suit the model.
    """
    method = method_of(spec)
    layout = _layout(spec, classes)
    several = (
        method.generates or spec.evaluation.keep == "clients" or method.evaluates not in ("model", "shared")
    )
    own = layout.size if several else (method.personal(layout) | method.local(layout)).size
    one = method.averages or type(method).round is not Method.round  # client's weights at a time
    slots = layout.size * (1 if one else clients)
    for slot in (slot for slot in method.slots if slot.name != method.evaluates):
        named = {"model": layout.size, "w": layout.P}
        size = math.prod(slot.like(layout, clients)) if callable(slot.like) else named[slot.like]
        slots += size * (clients if slot.owner == "client" else 1)
    return layout.size + clients * own, slots


_LAYOUTS: dict[str, Layout] = {}


def _layout(spec: RunSpec, classes: int) -> Layout:
    """The layout of a run's network, made once for all runs that share it."""
    key = canonical_json([spec.model.model_dump(), spec.method.model_dump(), spec.data.input_px, classes])
    if key not in _LAYOUTS:
        with shapes_only():
            _LAYOUTS[key] = Layout(method_of(spec).model(model_of(spec, classes)))
    return _LAYOUTS[key]


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
