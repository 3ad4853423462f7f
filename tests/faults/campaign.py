"""Plays seeded faults over a running experiment, and compares what is left with an undisturbed run's, bit for bit.

python -m tests.faults.campaign [--faults 30] [--seed 0] [--rounds 60] [--slurm]
"""

from __future__ import annotations

import argparse
import contextlib
import random
import subprocess
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import IO

from tests.faults.faults import LOCAL, SLURM, Fault, Scene
from tests.slurm.cluster import Cluster
from tests.slurm.results import assert_same, finished
from tests.workflow.checkout import Checkout

EXPERIMENT = """\
title: "Under fire"
protocol: digits
spec: {{federation: {{rounds: {rounds}}}, local: {{epochs: 1}}, evaluation: {{every: 5}}}}
methods: {{fedavg: , fedbn: , scaffold: }}
axes: {{target: [texture], seed: [0, 1]}}
tables: {{main: {{columns: [target]}}}}
"""
PARAMETERS = "experiments: [demo]\npack: 2\nparallel: 2\n"
RUNS = 6
STARTS = 100
HASTE = ("--slurm-init-seconds-before-status-checks", "5", "--latency-wait", "5")


def made(root: Path, rounds: int) -> Checkout:
    """A checkout with the experiment that is fired at."""
    return Checkout.made(root, {"demo": EXPERIMENT.format(rounds=rounds)}, PARAMETERS)


def play(checkout: Checkout, seed: int, count: int, cluster: Cluster | None = None) -> Counter[str]:
    """Train to the end under `count` faults, whose order and victims the seed decides. Returns how often each kind was played."""
    dice, played = random.Random(seed), Counter[str]()
    kinds: tuple[Fault, ...] = SLURM if cluster else LOCAL
    first = dice.randrange(len(kinds))
    order = [kinds[(first + i) % len(kinds)] for i in range(count)]
    dice.shuffle(order)
    with open(checkout.root / "campaign.log", "a") as log:
        for _ in range(STARTS):
            scene = Scene(checkout.root, _start(checkout, log, cluster), dice, cluster)
            while order and scene.snakemake.poll() is None:
                time.sleep(0.1)
                if not scene.claims():
                    continue
                time.sleep(dice.uniform(0, 1.5))
                with contextlib.suppress(
                    ProcessLookupError, FileNotFoundError
                ):  # ended by itself: strike again
                    order[-1](scene)
                    kind = order.pop().__name__
                    played[kind] += 1
                    print(f"{time.strftime('%H:%M:%S')} {kind}", file=log, flush=True)
            if scene.snakemake.wait() == 0:
                break
        else:
            raise AssertionError(
                f"not done after {STARTS} starts of snakemake: see {checkout.root}/campaign.log"
            )
    assert not order, f"the experiment ended before {len(order)} faults were played: give it more rounds"
    return played


def _start(checkout: Checkout, log: IO[str], cluster: Cluster | None) -> subprocess.Popen[str]:
    """What a user does after a crash: unlock, start again."""
    profile, options = ("slurm", HASTE) if cluster else ("profiles/ci", ())
    environment = {"FEDSHIFT_CHECKPOINT_SECONDS": "0.3"} | (cluster.environment if cluster else {})
    checkout.snakemake("--unlock", profile=profile, **environment)
    return checkout.start("metrics", "--retries", "3", *options, profile=profile, output=log, **environment)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--faults", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--slurm", action="store_true", help="on a Slurm of its own, with Slurm's faults")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="faults") as folder, contextlib.ExitStack() as stack:
        calm, fired = made(Path(folder, "calm"), chosen.rounds), made(Path(folder, "fired"), chosen.rounds)
        calm.run("metrics")
        cluster = None
        if chosen.slurm:
            cluster = Cluster(Path(folder, "slurm"))
            stack.callback(cluster.stop)
            cluster.start()
        began = time.monotonic()
        played = play(fired, chosen.seed, chosen.faults, cluster)
        assert len(finished(calm.root)) == RUNS
        assert_same(calm.root, fired.root)
    for kind, count in sorted(played.items()):
        print(f"{kind:20} {count:3}")
    print(
        f"{'all':20} {sum(played.values()):3}  seed {chosen.seed}, {time.monotonic() - began:.0f} s: all weights and metrics are the same"
    )


if __name__ == "__main__":
    main()
