"""Seconds of a federated round: fedshift's engine beside a bare PyTorch loop (bare.py) that does the same work.

--work hfedf: FedAvg on PACS by that protocol: clients art_painting, cartoon and sketch, photo held out, the network
hfedf_cnn at 32 px in bf16 and channels_last, batch 64, 2 local epochs of Adam, DomainBed's augmentation; the
global model is evaluated after every round on the three validation sets and on photo.
--work fdse: FedAvg on Office-Caltech10 by that protocol: four clients, AlexNet at 256 px in fp32, batch 50, one local
epoch of SGD, no augmentation; evaluated after every round on the clients' validation and test sets.
Each side has a process
of its own with the same number of threads, and only one of them works at a time: they alternate client by
client, so that a busy spell of the machine meets both. CPU seconds are those of the working process. Images
are prepared in a temporary folder from FEDSHIFT_SHARED (default ../shared). --each N takes N images of each part of a
client at most: shorter rounds, in which what is done once a round weighs more.
"""

from __future__ import annotations

import argparse
import itertools
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import torch
from bare import Bare

from fedshift.data.fetch import fetch
from fedshift.data.load import RunData, load
from fedshift.data.partition import partition
from fedshift.data.prepare import prepare
from fedshift.experiments.protocols import merge, protocol
from fedshift.spec import RunSpec, parse
from fedshift.spec.resolve import resolve
from fedshift.storage.workspace import Workspace
from fedshift.training.assemble import assemble

ROOT = Path(__file__).parents[1]
TARGET = "photo"
SIDES = ("bare", "ours")

Event = tuple[int, dict[str, float]] | None  # of a client, None; of a round, images and accuracies
Turn = Callable[[Event], None]


def declared(px: int, rounds: int, precision: str = "bf16", **data: Any) -> RunSpec:
    """The protocol hfedf on PACS, evaluated after every round; data: other settings of the data."""
    data = {"dataset": "pacs", "target": TARGET, "prepare": {"px": px}, **data}
    return _declared("hfedf", data, rounds, precision)


def _declared(protocol_name: str, data: dict[str, Any], rounds: int, precision: str) -> RunSpec:
    """FedAvg by a protocol, evaluated after every round."""
    changes = {
        "data": data,
        "method": {"name": "fedavg"},
        "local": {"precision": precision},
        "federation": {"rounds": rounds},
        "evaluation": {"every": 1},
    }
    return resolve(
        parse(merge(protocol(Workspace(ROOT), protocol_name).spec, changes), "benchmarks/round.py")
    )


def work(name: str, px: int, rounds: int) -> RunSpec:
    """The run of `--work`."""
    if name == "hfedf":
        return declared(px, rounds)
    return _declared("fdse", {"dataset": "office_caltech10"}, rounds, "fp32")


def prepared(workspace: Workspace, spec: RunSpec) -> Workspace:
    """A workspace with the images and the partition of a run, from FEDSHIFT_SHARED."""
    shared = Path(os.environ.get("FEDSHIFT_SHARED", ROOT.parent / "shared"))
    fetch(workspace, spec.data.dataset, source=shared / "data" / spec.data.dataset)
    prepare(workspace, spec.data.dataset, options=spec.data.prepare)
    partition(workspace, spec)
    return workspace


def shortened(data: RunData, each: int | None) -> RunData:
    """Without most images of its clients: of each part `each` are left, from its whole length."""

    def some(rows: torch.Tensor) -> torch.Tensor:
        if each is None or len(rows) <= each:
            return rows
        return rows[torch.linspace(0, len(rows) - 1, each).long()]

    clients = [replace(c, train=some(c.train), val=some(c.val), test=some(c.test)) for c in data.clients]
    return replace(data, clients=clients)


def ours(workspace: Workspace, spec: RunSpec, turn: Turn, each: int | None = None) -> None:
    """The engine as `fedshift train` drives it, but for checkpoints (one in 30 s there)."""
    federation, _ = assemble(spec, shortened(load(workspace, spec), each), torch.device("cpu"))
    domains = {k: client.domains[0] for k, client in enumerate(federation.evaluated_clients)}
    trained = itertools.cycle([*[True] * (len(federation.clients) - 1), False])
    federation.on_client = lambda: turn(None) if next(trained) else None  # the last one's turn is the round's
    for finished in federation.run():
        rows = [row for row in federation.records.rows if row["round"] == finished]
        images = next(int(row["value"]) for row in rows if row["metric"] == "images")
        scores = {}
        for row in (row for row in rows if row["metric"] == "accuracy"):  # by bare.py's names of the sets
            name = domains.get(row["client"], TARGET)
            scores[f"{name}, test" if row["split"] == "test" else name] = row["value"]
        turn((images, scores))


def serve(
    pipe: Connection, side: str, workspace: Workspace, spec: RunSpec, threads: int, fused: bool,
    each: int | None,
) -> None:  # fmt: skip
    """Play one client's turn whenever told to; answer (wall seconds, CPU seconds, event)."""
    torch.set_num_threads(threads)
    began = (0.0, 0.0)

    def wait() -> None:
        nonlocal began
        if not pipe.recv():
            raise SystemExit
        began = time.perf_counter(), time.process_time()

    def turn(event: Event) -> None:
        pipe.send((time.perf_counter() - began[0], time.process_time() - began[1], event))
        wait()

    wait()
    if side == "ours":
        ours(workspace, spec, turn, each)
    else:
        bare = Bare(workspace.prepared(spec.data.prepared_name), spec, fused, each)
        for event in bare.rounds():
            turn(event)


@contextmanager
def processes(*settings: Any) -> Iterator[dict[str, Connection]]:
    """Both sides, started and waiting."""
    context, pipes, started = get_context("spawn"), {}, []
    for side in SIDES:
        pipes[side], child = context.Pipe()
        started.append(context.Process(target=serve, args=(child, side, *settings), daemon=True))
        started[-1].start()
        child.close()
    try:
        yield pipes
    finally:
        for process in started:
            process.terminate()
            process.join()


@dataclass
class Round:
    """What one side did in one round."""

    wall: float = 0.0
    cpu: float = 0.0
    images: int = 0
    scores: dict[str, float] = field(default_factory=dict)


def play(pipes: dict[str, Connection], order: tuple[str, ...]) -> dict[str, Round]:
    """One round of both sides, client by client in turn."""
    pair = {side: Round() for side in SIDES}
    while not all(outcome.images for outcome in pair.values()):
        for side in order:
            pipes[side].send(True)
            wall, cpu, event = pipes[side].recv()
            pair[side].wall += wall
            pair[side].cpu += cpu
            if event is not None:
                pair[side].images, pair[side].scores = event
    return pair


def compare(pipes: dict[str, Connection], rounds: int) -> None:
    """Print a line per pair of rounds, then the medians."""
    play(pipes, SIDES)
    pairs: list[dict[str, Round]] = []
    for turn in range(rounds):
        pair = play(pipes, SIDES if turn % 2 == 0 else SIDES[::-1])
        pairs.append(pair)
        seconds = ", ".join(
            f"{side} {outcome.wall:.2f} s (CPU {outcome.cpu:.2f})" for side, outcome in pair.items()
        )
        wall, cpu = (getattr(pair["ours"], unit) / getattr(pair["bare"], unit) for unit in ("wall", "cpu"))
        load = os.getloadavg()[0]
        print(f"pair {turn + 1}: {seconds}, ratio {wall:.3f} (CPU {cpu:.3f}), load {load:.1f}", flush=True)
    assert pair["bare"].images == pair["ours"].images, "the sides trained on different numbers of images"
    print("\n| | wall s/round, median | least | CPU s/round, median | images/round | last accuracies |")
    print("|---|---|---|---|---|---|")
    for side, last in pairs[-1].items():
        walls, cpus = [pair[side].wall for pair in pairs], [pair[side].cpu for pair in pairs]
        scores = ", ".join(f"{name} {value:.3f}" for name, value in sorted(last.scores.items()))
        print(
            f"| {side} | {median(walls):.2f} | {min(walls):.2f} | {median(cpus):.2f} | {last.images:,} | {scores} |"
        )
    wall = median(pair["ours"].wall / pair["bare"].wall for pair in pairs)
    cpu = median(pair["ours"].cpu / pair["bare"].cpu for pair in pairs)
    print(f"\nratio ours/bare, median of {rounds} pairs: wall {wall:.3f}, CPU {cpu:.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--work", choices=("hfedf", "fdse"), default="hfedf", help="(default hfedf)")
    parser.add_argument("--threads", type=int, choices=(1, 2), default=1, help="of each side (default 1)")
    parser.add_argument("--rounds", type=int, default=5, help="pairs, after one pair to warm up (default 5)")
    parser.add_argument("--each", type=int, help="images in each part of a client at most (default: all)")
    parser.add_argument(
        "--prepare-px",
        type=int,
        choices=(64, 32),
        default=64,
        help="side of hfedf's decoded images; 64 is the protocol's (default)",
    )
    parser.add_argument(
        "--adam",
        choices=("fused", "plain"),
        default="fused",
        help="the bare loop's optimiser: Adam(fused=True) (default, the faster) or as it comes",
    )
    parser.add_argument(
        "--workspace",
        type=Path,
        help="use (and fill) this folder instead of a temporary one, to prepare only once",
    )
    options = parser.parse_args()
    spec = work(options.work, options.prepare_px, options.rounds + 1)
    with TemporaryDirectory() as temporary:
        workspace = prepared(Workspace(options.workspace or Path(temporary)), spec)
        settings = (workspace, spec, options.threads, options.adam == "fused", options.each)
        with processes(*settings) as pipes:
            compare(pipes, options.rounds)


if __name__ == "__main__":
    main()
