"""All that only a GPU can tell, in one command: python benchmarks/gpu_check.py (make gpu-check), some 40 minutes.

equality: every method, trained for 3 rounds on the CPU and on the device in fp32 (without TF32): how far the weights are apart, and the
    accuracies of a stage over the images of all clients. Accuracies further apart than --tolerance fail the check; of methods that draw
    noise on the device (docs/reproducibility.md), where other random numbers are compared, those further apart than four times as much.
steps: of each work size and precision, milliseconds of a bare step (no federation) and of a step in a round of FedAvg, images/s; the last as rows for costs.csv.
packing: the same round in several processes on the device at once.

The report goes to results/gpu-check.md. An empty `--methods` or `--work` leaves its part out. `--device cpu` plays all of it on a CPU, where it tells nothing new.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from unittest import mock

import torch
from torch.nn import functional as F

from fedshift.common.files import write_text
from fedshift.common.registry import names
from fedshift.data.augment import Augment, Evaluate
from fedshift.federation import local
from fedshift.federation.graph import Steps
from fedshift.federation.loop import Federation
from fedshift.federation.precision import arithmetic
from fedshift.federation.samples import ClientData, Samples
from fedshift.spec import RunSpec
from fedshift.spec.resolve import resolve
from fedshift.testing.digits import digits
from fedshift.testing.toys import finish, spec
from fedshift.training.device import deterministic

ROOT = Path(__file__).parents[1]
PRECISIONS = {"cuda": ("fp32", "tf32", "bf16"), "cpu": ("fp32",)}
Scores = dict[tuple[str, int, str], tuple[float, int]]  # by stage, client and split: accuracy and images
DRAW_THERE = {"dsu", "feddg", "fedfa", "fedsr", "mixstyle", "stablefdg"}  # noise, on the device
FURTHER = 4  # times the tolerance, for these: a broken method is at chance, which is further away
TOLERANCE = 0.05  # of accuracy: one of the 30 images that are tested, three of the 60 that validate
WARM, TIMED = 2, 5  # rounds, and as many tens of bare steps
CLIENTS, STEPS, EPOCHS = 3, 10, 2  # of a round: steps of an epoch
CLASSES = 7


@dataclass(frozen=True)
class Work:
    """A size of work: network, side of the stored images and of its input, batch, optimiser, augmentation."""

    model: str
    px: int
    input_px: int
    batch: int
    optimizer: str
    augment: str

    def run(self, precision: str) -> RunSpec:
        """A run of FedAvg that does this work."""
        momentum = {"momentum": 0.9} if self.optimizer == "sgd" else {}
        return resolve(
            spec(
                data={
                    "dataset": "pacs", "prepare": {"px": self.px}, "input_px": self.input_px,
                    "augment": self.augment, "normalise": "imagenet",
                },
                model={"name": self.model}, evaluation={"every": WARM + TIMED, "keep": "none"},
                local={"batch": self.batch, "epochs": EPOCHS, "precision": precision,
                       "optimizer": self.optimizer, **momentum},
                federation={"rounds": WARM + TIMED},
            )
        )  # fmt: skip


WORK = {
    "digits": Work("digits_cnn", 32, 32, 64, "adam", "none"),
    "w32": Work("hfedf_cnn", 32, 32, 64, "adam", "none"),
    "w32_augmented": Work("hfedf_cnn", 32, 32, 64, "adam", "domainbed"),
    "alexnet": Work("alexnet_bn", 256, 256, 50, "sgd", "none"),
    "resnet18": Work("resnet18", 227, 224, 16, "sgd", "fedrd"),
}


@contextmanager
def steps_of(federation: Federation, how: str) -> Iterator[None]:
    """In the block a federation takes its steps so: "eager"; "rate", eager with the learning rate on the device, as
    graphs need it; "graph", recorded on a GPU, else as "rate".
    """
    federation.worker.graph = None if how == "eager" else torch.cuda.CUDAGraph
    if how == "graph" and federation.device.type == "cuda":
        yield
    else:
        with mock.patch.object(
            local, "Steps", lambda client, method, step, _: Steps(client, method, step, None)
        ):
            yield


def trained(
    method: str, device: torch.device, how: str = "eager", precision: str = "fp32"
) -> tuple[torch.Tensor, Scores]:
    """All entries of the global model, one after the other, after 3 rounds on handwritten digits, and all
    accuracies of the last. how: as in `steps_of`.
    """
    settings = {"batch": 50, "epochs": 2, "lr": 0.01, "precision": precision}
    run = resolve(spec(method={"name": method}, local=settings, federation={"rounds": 3}))
    images, clients, held_out = digits("none", (130, 130, 130), 20, 10)
    samples = Samples(images.pixels, images.labels, images.augment, images.evaluate, device=device)
    federation = Federation(
        run, run.method.build(), lambda: run.model.build(10, run.data.input_px), samples, clients, held_out
    )
    with steps_of(federation, how):
        finish(federation)
    scores = {
        (row["stage"], row["client"], row["split"]): (row["value"], row["n"])
        for row in federation.records.rows
        if row["metric"] == "accuracy" and row["round"] == 3
    }
    entries = federation.layout.named(federation.state.row.cpu()).values()  # rows of a GPU have padding
    return torch.cat([entry.flatten() for entry in entries]), scores


def equality(methods: list[str], device: torch.device) -> Iterator[tuple[str, float, float]]:
    """Of each method the relative distance of the weights, and how far the accuracies are `apart`."""
    for method in methods:
        (ours, accuracies), (theirs, others) = trained(method, torch.device("cpu")), trained(method, device)
        yield method, distance(ours, theirs), apart(accuracies, others)


def distance(one: torch.Tensor, other: torch.Tensor) -> float:
    """Relative distance; 0 for the same bits; entries that stay with clients mean nothing."""
    known = one.isfinite()
    if torch.equal(one[known], other[known]):
        return 0.0
    return float(f"{float((one - other)[known].norm() / one[known].norm()):.2e}")


def apart(ours: Scores, theirs: Scores) -> float:
    """The share of images by which accuracies differ, added over clients: the largest of all stages and
    splits.
    """
    images, told = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for (stage, client, split), (value, n) in ours.items():
        images[stage, split] += n
        told[stage, split] += round(n * abs(value - theirs[stage, client, split][0]))
    return max(told[key] / images[key] for key in images)


def samples(work: Work, device: torch.device, steps: int = STEPS) -> Samples:
    """Random images for all clients."""
    n = CLIENTS * steps * work.batch
    pixels = torch.randint(256, (n, work.px, work.px, 3), dtype=torch.uint8)
    size = work.px, work.input_px, "imagenet"
    augment, evaluate = Augment(work.augment, *size), Evaluate(*size)
    return Samples(pixels, torch.arange(n) % CLASSES, augment, evaluate, device=device)


def wait(device: torch.device) -> float:
    """The time, when the device has done what it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def timed(play: Callable[[], object], device: torch.device) -> float:
    """Median seconds of what is played, after it is warm."""
    times = []
    for _ in range(WARM + TIMED):
        began = wait(device)
        play()
        times.append(wait(device) - began)
    return median(times[WARM:])


def federated(
    name: str, precision: str, device: torch.device, how: str = "eager", steps: int = STEPS
) -> float:
    """Seconds of a step in a round of FedAvg, on a GPU by deterministic kernels, as `fedshift train` requests.
    how: as in `steps_of`; steps: of an epoch.
    """
    work = WORK[name]
    run = work.run(precision)
    nobody = torch.empty(0, dtype=torch.int64)
    parts = torch.arange(CLIENTS * steps * work.batch).split(steps * work.batch)
    held = [ClientData(part, nobody, nobody) for part in parts]
    federation = Federation(
        run,
        run.method.build(),
        lambda: run.model.build(CLASSES, run.data.input_px),
        samples(work, device, steps),
        held,
        nobody,
    )
    events = federation.run()
    deterministic(device)
    try:
        with steps_of(federation, how):
            round_seconds = timed(lambda: next(events, None), device)
    finally:
        torch.use_deterministic_algorithms(False)
    return round_seconds / (CLIENTS * steps * EPOCHS)


def bare(name: str, precision: str, device: torch.device) -> float:
    """Seconds of a step of the same network on the same images, without a federation."""
    work = WORK[name]
    run, given = work.run(precision), samples(work, device)
    with arithmetic(precision, device):
        model = run.model.build(CLASSES, run.data.input_px)
        model.to(device, memory_format=torch.channels_last).train()
        if work.optimizer == "adam":
            optimizer: torch.optim.Optimizer = torch.optim.Adam(model.parameters(), fused=True)
        else:
            optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9, fused=True)
        batches = itertools.cycle(torch.arange(len(given.labels), device=device).split(work.batch))

        def ten() -> None:
            for index in itertools.islice(batches, 10):
                x, y = given.evaluate(given.pixels[index]), given.labels[index]
                with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16"):
                    loss = F.cross_entropy(model(x).logits.float(), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()

        return timed(ten, device) / 10


def steps(works: list[str], device: torch.device) -> Iterator[str]:
    """Lines of the table of steps, then of costs.csv."""
    rows = []
    yield "| work | precision | bare, ms | in a round, ms | ratio | images/s |\n|---|---|---|---|---|---|"
    for name, precision in itertools.product(works, PRECISIONS[device.type]):
        work, alone, ours = WORK[name], bare(name, precision, device), federated(name, precision, device)
        rate = work.batch / ours
        yield f"| {name} | {precision} | {1e3 * alone:.2f} | {1e3 * ours:.2f} | {ours / alone:.2f} | {rate:,.0f} |"
        rows.append(
            f'{work.model},{work.input_px},{device.type},{precision},{rate:.0f},"python benchmarks/gpu_check.py: {name} ({hardware(device)})"'
        )
    yield "\nRows for benchmarks/costs.csv:\n\n```\n" + "\n".join(rows) + "\n```"


def packing(work: str, packs: list[int], device: torch.device) -> Iterator[str]:
    """Lines of the table of several processes at once."""
    yield "| at once | images/s each | images/s in all |\n|---|---|---|"
    for count in packs:
        with multiprocessing.get_context("spawn").Pool(count) as pool:
            times = pool.starmap(federated, [(work, "fp32", device)] * count, chunksize=1)
        rates = [WORK[work].batch / step for step in times]
        yield f"| {count} | {median(rates):,.0f} | {sum(rates):,.0f} |"


def hardware(device: torch.device) -> str:
    return (
        torch.cuda.get_device_name(device)
        if device.type == "cuda"
        else f"CPU, {torch.get_num_threads()} threads"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--methods", nargs="*", default=list(names("methods")))
    parser.add_argument("--work", nargs="*", default=list(WORK), choices=list(WORK))
    parser.add_argument("--packs", type=int, nargs="*", default=[1, 2, 4, 8])
    parser.add_argument(
        "--tolerance", type=float, default=TOLERANCE, help="of accuracy between CPU and device"
    )
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "gpu-check.md")
    options = parser.parse_args()
    if options.device == "cuda" and not torch.cuda.is_available():
        sys.exit(
            "no GPU that torch can use: see `nvidia-smi` and `python -c 'import torch; print(torch.cuda.is_available())'`"
        )
    device, lines, failed = torch.device(options.device), list[str](), []

    def tell(line: str) -> None:
        print(line, flush=True)
        lines.append(line)

    commit = subprocess.run(
        ["git", "rev-parse", "--short=7", "HEAD"], cwd=ROOT, capture_output=True, text=True
    ).stdout.strip()
    tell(
        f"# GPU check\n\nMade by `{commit or 'unknown'}` on {hardware(device)}, torch {torch.__version__}, load {os.getloadavg()[0]:.1f}.\n"
    )
    if options.methods:
        tell(
            "## CPU against device, 3 rounds in fp32\n\n| method | relative distance of weights | largest difference of an accuracy |\n|---|---|---|"
        )
    for method, far, difference in equality(options.methods, device):
        draws = method in DRAW_THERE
        tell(f"| {method} | {far:.1e} | {difference:.3f}{' (draws there)' * draws} |")
        failed += [method] if difference > options.tolerance * (FURTHER if draws else 1) else []
    if options.work:
        tell("\n## Steps\n")
        for line in steps(options.work, device):
            tell(line)
        tell(f"\n## Several runs of {options.work[0]} at once\n")
        for line in packing(options.work[0], options.packs, device):
            tell(line)
    if options.methods:
        verdict = f"Failed: {', '.join(failed)}" if failed else "Passed"
        tell(
            f"\n{verdict}: accuracies within {options.tolerance} of the CPU's ({FURTHER} times that: draws there)."
        )
    options.out.parent.mkdir(parents=True, exist_ok=True)
    write_text(options.out, "\n".join(lines) + "\n")
    print(f"report: {options.out}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
