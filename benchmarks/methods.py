"""Seconds of one federated round of every method over FedAvg's, same network and images, and where the extra goes.

Random images, three clients of 600, batch 64, 2 local epochs, no evaluation inside the timed part. Methods take turns round by round,
so that a busy spell of the machine meets all. seconds: the median round; factor: the median over rounds of (method / FedAvg of the same
turn), for each image that is trained on; images: those of a round over FedAvg's, so that a round takes factor * images of FedAvg's;
passes: of an image through networks in local steps over FedAvg's (a backward pass counts as two forward ones); outside: of a training image
before and after them, once a round; both as passes.py counts them; spread: (most - least) / median of the factors. The columns after them are the share of the method's own round that each hook took,
measured with its clock around it. A method that trains on rendered images has as many as it would render; making them is not timed.
"""

from __future__ import annotations

import argparse
import csv
import io
import time
from collections import defaultdict
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from statistics import median
from typing import Any

import torch
from passes import Pair, play

from fedshift.common.errors import FedshiftError
from fedshift.common.files import write_text
from fedshift.common.registry import names
from fedshift.data.augment import Augment, Evaluate
from fedshift.federation.loop import Federation
from fedshift.federation.samples import ClientData, Samples
from fedshift.spec import RunSpec

OUT = Path(__file__).parent / "methods.csv"
HOOKS = ("broadcast", "begin", "setup", "loss", "grad", "step", "end", "aggregate")


class Clock:
    """Seconds by hook; on a GPU each reading waits for the device."""

    def __init__(self, device: torch.device) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._device = device

    def around(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **options: Any) -> Any:
            began = self.now()
            result = function(*args, **options)
            self.seconds[name] += self.now() - began
            return result

        return timed

    def now(self) -> float:
        if self._device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter()


def images(
    device: torch.device, clients: int, size: int, px: int, copies: int
) -> tuple[Samples, list[ClientData]]:
    """Noise with seven classes; a tenth of each client's samples are for validation, each other one is trained on `copies` times."""
    rng = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 256, (clients * size, px, px, 3), generator=rng, dtype=torch.uint8)
    labels = torch.randint(0, 7, (clients * size,), generator=rng)
    held: list[ClientData] = []
    for part in torch.arange(clients * size).split(size):
        train, val = part.split([size - size // 10, size // 10])
        domains = (f"domain{len(held)}",)
        held.append(ClientData(train.repeat_interleave(copies), val, val[:0], domains))
    augment, evaluate = Augment("none", px, px, "unit"), Evaluate(px, px, "unit")
    return Samples(pixels, labels, augment, evaluate, device=device), held


def federation(name: str, options: argparse.Namespace, device: torch.device) -> Federation:
    spec = RunSpec.model_validate(
        {
            "data": {"dataset": "pacs", "prepare": {"px": options.px}, "input_px": options.px},
            "model": {"name": options.model},
            "method": {"name": name},
            "local": {"batch": 64, "epochs": 2, "lr": 1e-3, "precision": options.precision},
            "federation": {"rounds": 10**6},
            "evaluation": {"every": 10**6, "keep": "none"},
        }
    )
    copies = rendering.copies if (rendering := spec.rendering) else 1
    samples, held = images(device, options.clients, options.each, options.px, copies)
    nobody = torch.empty(0, dtype=torch.int64)
    built = Federation(
        spec, spec.method.build(), lambda: spec.model.build(7, spec.data.input_px), samples, held, nobody
    )
    built.evaluator.inactive = lambda clients, finished: None  # type: ignore[method-assign]
    built.evaluator.aggregated = lambda finished: None  # type: ignore[method-assign]
    return built


def timed_round(federation: Federation, clock: Clock) -> float:
    """Seconds of one round; hooks are counted on `clock`."""
    began = clock.now()
    for _ in federation.run():
        break
    return clock.now() - began


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--methods", nargs="*", default=list(names("methods")))
    parser.add_argument("--model", default="digits_cnn")
    parser.add_argument("--px", type=int, default=32)
    parser.add_argument("--clients", type=int, default=3)
    parser.add_argument("--each", type=int, default=600)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--precision", default="bf16", choices=("fp32", "bf16"))
    parser.add_argument("--device", default="cpu")
    parser.add_argument(
        "--csv",
        action="store_true",
        help=f"write the rows of --methods into {OUT.name}, which docs/methods.md shows; others stay",
    )
    parser.add_argument(
        "--count", action="store_true", help="measure nothing; count the passes in the rows that are there"
    )
    options = parser.parse_args()
    if options.count:
        return write([{**row, **passes(row["method"])} for row in known(OUT).values()], OUT)
    torch.set_num_threads(options.threads)
    device = torch.device(options.device)
    wanted = ["fedavg", *(name for name in options.methods if name != "fedavg")]
    federations = {}
    for name in wanted:
        try:
            federations[name] = federation(name, options, device)
        except FedshiftError as error:
            print(f"left out: {error}")
    wanted = [*federations]
    clocks = {name: Clock(device) for name in wanted}
    for name in wanted:
        timed_round(federations[name], clocks[name])  # warm
        method = federations[name].method
        for hook in HOOKS:
            setattr(method, hook, clocks[name].around(hook, getattr(method, hook)))
    seconds: dict[str, list[float]] = {name: [] for name in wanted}
    for _ in range(options.rounds):
        for name in wanted:
            seconds[name].append(timed_round(federations[name], clocks[name]))
    trained = {
        name: images_trained(federations[name]) / images_trained(federations["fedavg"]) for name in wanted
    }
    rows = [row(name, seconds, trained[name], clocks[name]) for name in wanted]
    show(rows)
    if options.csv:
        write([row for row in rows if row["method"] in options.methods], OUT)


def images_trained(federation: Federation) -> int:
    """Images of the last round's steps."""
    return int([record["value"] for record in federation.records.rows if record["metric"] == "images"][-1])


def row(name: str, seconds: dict[str, list[float]], images: float, clock: Clock) -> dict[str, Any]:
    factors = [own / base / images for own, base in zip(seconds[name], seconds["fedavg"], strict=True)]
    middle, total = median(factors), sum(seconds[name])
    shares = {hook: round(clock.seconds[hook] / total, 3) for hook in HOOKS}
    facts = {
        "method": name,
        "seconds": round(median(seconds[name]), 3),
        "factor": round(middle, 2),
        "images": round(images, 3),
        **passes(name),
        "spread": round((max(factors) - min(factors)) / middle, 3),
    }
    return facts | shares | {"rest": round(1 - sum(shares.values()), 3)}


def passes(name: str) -> dict[str, float]:
    """Passes of a training image in steps and outside them, over FedAvg's; a rendered image is one of its own."""
    played = play(name)
    nothing = (Fraction(0), Fraction(0))
    outside = of_fedavg(played.outside.get("train", nothing))
    return {"passes": of_fedavg(played.steps) / played.copies, "outside": outside / played.copies}


def of_fedavg(pair: Pair) -> float:
    """Forward and backward passes in those of FedAvg, one of each; backward is two matrix products for each of forward's."""
    return round(float(pair[0] + 2 * pair[1]) / 3, 3)


def known(path: Path) -> dict[str, dict[str, Any]]:
    """The rows of a CSV file by method; none where it is absent."""
    if not path.exists():
        return {}
    with path.open(newline="") as file:
        return {row["method"]: row for row in csv.DictReader(file)}


def write(rows: list[dict[str, Any]], path: Path) -> None:
    """Put rows into a CSV file in place of those of the same methods; FedAvg comes first, the others by name."""
    every = known(path) | {row["method"]: row for row in rows}
    ordered = sorted(every.values(), key=lambda row: (row["method"] != "fedavg", row["method"]))
    text = io.StringIO()
    writer = csv.DictWriter(text, rows[0], lineterminator="\n")
    writer.writeheader()
    writer.writerows(ordered)
    write_text(path, text.getvalue())


def show(rows: list[dict[str, Any]]) -> None:
    hooks = (*HOOKS, "rest")
    titles = f"{'method':12} {'s/round':>8} {'factor':>7} {'images':>7} {'spread':>7}"
    print(f"{titles}  " + " ".join(f"{hook:>9}" for hook in hooks))
    for row in rows:
        facts = f"{row['seconds']:8.3f} {row['factor']:7.2f} {row['images']:7.2f} {row['spread']:7.1%}"
        print(f"{row['method']:12} {facts}  " + " ".join(f"{row[hook]:9.1%}" for hook in hooks))
    print("rest: backward, optimiser, batches; loss: forward and what the method adds to it")


if __name__ == "__main__":
    main()
