"""Do two versions of the code train the same weights, bit for bit? SHA-256 of all that a run keeps, by method and augmentation.

Handwritten digits of scikit-learn, three clients that see them in colours of their own, fp32, one thread, 3 rounds. Adam and SGD take turns;
batches are of 50, which leaves a remainder. `--against REVISION` runs that revision's copy of this file in a worktree, too (44c10e4 has the first), and compares.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import torch
from sklearn.datasets import load_digits

from fedshift.build import method_of, model_of
from fedshift.data.augment import Augment, Evaluate
from fedshift.federation.loop import Federation
from fedshift.federation.samples import ClientData, Samples
from fedshift.spec.resolve import resolve
from fedshift.testing.toys import finish, spec, tensors

TEN = ("fdse", "fedrd", "hfedf", "stablefdg", "scaffold", "ditto", "fedbn", "pfedhn", "ccst", "feddg")
PX = 32
COLOURS = ((1.0, 0.8, 0.4), (0.5, 1.0, 0.9), (0.9, 0.3, 1.0))
EACH = 130  # training images of a client
ROOT = Path(__file__).parents[1]


def digits(augmentation: str) -> tuple[Samples, list[ClientData]]:
    """The first images, [n, 32, 32, 3], each client's in its colour; the last 30 of a client's are for validation and test."""
    count = (EACH + 30) * len(COLOURS)
    grey = torch.from_numpy(load_digits().images[:count]).mul(15.9)
    labels = torch.from_numpy(load_digits().target[:count]).long()
    held = torch.arange(count).split(EACH + 30)
    pixels = grey.repeat_interleave(4, 1).repeat_interleave(4, 2)[..., None].repeat(1, 1, 1, 3)
    for part, colour in zip(held, COLOURS, strict=True):
        pixels[part] *= torch.tensor(colour, dtype=pixels.dtype)
    augment, evaluate = Augment(augmentation, PX, PX, "half"), Evaluate(PX, PX, "half")
    clients = []
    for k, part in enumerate(held):
        train, val, test = part.split([EACH, 20, 10])
        clients.append(ClientData(train, val, test, (f"domain{k}",), (1, 2)))
    return Samples(
        pixels.to(torch.uint8), labels, augment, evaluate, evaluate.mean, evaluate.deviation
    ), clients


def digest(method: str, augmentation: str, optimizer: str) -> str:
    """Train; SHA-256 of every tensor of the run's state."""
    run = resolve(
        spec(
            method={"name": method},
            local={
                "batch": 50,
                "epochs": 2,
                "lr": 1e-3 if optimizer == "adam" else 0.02,
                "optimizer": optimizer,
            },
            federation={"rounds": 3},
            evaluation={"keep": "none"},
        )
    )
    samples, clients = digits(augmentation)
    nobody = torch.empty(0, dtype=torch.int64)
    federation = Federation(run, method_of(run), lambda: model_of(run, 10), samples, clients, nobody)
    sha256 = hashlib.sha256()
    for name, tensor in sorted(tensors(finish(federation)).items()):
        sha256.update(name.encode())
        sha256.update(tensor.contiguous().numpy().tobytes())
    return sha256.hexdigest()


def digests(methods: list[str], augmentations: list[str]) -> Iterator[tuple[str, str]]:
    """("method, augmentation", digest), one after the other."""
    turns = itertools.cycle(("adam", "sgd"))
    for method, augmentation in itertools.product(methods, augmentations):
        yield f"{method}, {augmentation}", digest(method, augmentation, next(turns))


def other(revision: str, options: list[str]) -> dict[str, str]:
    """What another revision finds, by its own copy of this file."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        subprocess.run(["git", "worktree", "add", "--detach", "-q", tree, revision], cwd=ROOT, check=True)
        try:
            environment = os.environ | {"PYTHONPATH": str(tree / "src")}
            command = [sys.executable, str(tree / "benchmarks" / "digests.py"), *options, "--json"]
            done = subprocess.run(command, cwd=tree, env=environment, check=True, capture_output=True)
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", tree], cwd=ROOT, check=True)
    by_name: dict[str, str] = json.loads(done.stdout)
    return by_name


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--methods", nargs="+", default=["fedavg", *TEN])
    parser.add_argument("--augment", nargs="+", default=["none", "domainbed"])
    parser.add_argument("--against", metavar="REVISION")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    before = {}
    if options.against:
        arguments = ["--methods", *options.methods, "--augment", *options.augment]
        before = other(options.against, arguments)
    by_name = {}
    for name, value in digests(options.methods, options.augment):
        by_name[name] = value
        if not options.json:
            comparison = "" if not before else "same" if before[name] == value else "DIFFERENT"
            print(f"{name:24} {value[:16]} {comparison}", flush=True)
    if options.json:
        print(json.dumps(by_name))
    return int(bool(before) and before != by_name)


if __name__ == "__main__":
    sys.exit(main())
