"""Plays seeded faults over a running experiment, and compares what is left with an undisturbed run's, bit for bit.

python -m tests.faults.campaign [--seed 0] [--count 100] [--rounds 10]

The seed decides the order of the faults, their victims and the pauses between them.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from tqdm import tqdm

from tests.faults.arrived import assert_each_point_once
from tests.faults.disk import why_none
from tests.faults.faults import ALL, fill_disk, read_only
from tests.faults.processes import of_folder, until
from tests.faults.scene import IN_PEACE, RUNS, Missed, Scene, staged, undisturbed
from tests.faults.strikes import Fault
from tests.slurm.results import assert_same, finished
from tests.workflow.checkout import Checkout

PATIENCE = 900.0  # seconds until the last follower has published everything and ended


def left_out(folder: Path) -> dict[Fault, str]:
    """Faults that this user may not play, and why."""
    reason = why_none(folder)
    return dict.fromkeys((fill_disk, read_only), reason) if reason else {}


def order_of(kinds: Iterable[Fault], count: int, seed: int) -> list[Fault]:
    """`count` faults, each kind as often as the others; one seed goes on where the seed before it ended."""
    possible = list(kinds)
    order = [possible[(seed * count + i) % len(possible)] for i in range(count)]
    random.Random(seed).shuffle(order)
    return order


def play(scene: Scene, calm: Checkout, order: list[Fault], bar: tqdm[None]) -> tuple[Counter[str], str]:
    """Train to the end under all these faults, and judge whenever nothing is left to train.

    Returns how often each kind was played, and what the last judgement compared.
    """
    played: Counter[str] = Counter()
    starts = 20 + 5 * len(order)
    scene.next_act()
    for _ in range(starts):
        scene.start()
        while order and not scene.ended:
            if scene.due():
                _strike(scene, order, played)
                bar.update(played.total() - bar.n)
            time.sleep(0.1)
        assert scene.snakemake is not None
        if scene.snakemake.wait() == 0:
            compared = judge(scene, calm)
            scene.note(compared)
            if not order:
                return played, compared
            scene.next_act()
    raise AssertionError(f"not done after {starts} starts of snakemake: see {scene.log.name}")


def _strike(scene: Scene, order: list[Fault], played: Counter[str]) -> None:
    """Play the last one of the order; what finds no victim comes again later."""
    kind = order.pop()
    scene.note(f"{kind.__name__} ...")
    try:
        kind(scene)
    except Missed:
        scene.note(f"{kind.__name__} missed")
        order.insert(scene.dice.randrange(len(order) + 1), kind)
    else:
        scene.note(f"{kind.__name__} struck: {played.total() + 1}")
        played[kind.__name__] += 1


def judge(scene: Scene, calm: Checkout) -> str:
    """Assert that the faults have changed nothing; say what was compared."""
    root = scene.checkout.root
    scene.server.wait()
    assert until(lambda: not of_folder(root), PATIENCE), of_folder(root)
    if "run: fedshift track" in (root / "logs" / "track.log").read_text():  # as a follower that gave up says
        scene.fedshift("track")
    undisturbed(calm, scene.rounds, scene.acts)
    assert_same(root, calm.root)
    for stamp in scene.stamps():
        assert not json.loads(stamp.read_text())["failed"]
    for name, run in finished(root).items():
        differ = _files(run) ^ _files(finished(calm.root)[name])
        assert not differ, (name, differ)
    writers = scene.writers.count()
    points = assert_each_point_once(root, scene.runs, scene.server.database, scene.anew)
    return (
        f"{RUNS * scene.acts} runs: weights and metrics are an undisturbed run's; {writers} processes wrote, never two at once; "
        f"{points} points in MLflow, each once"
    )


def _files(run: Path) -> set[str]:
    paths = {path.relative_to(run) for path in run.rglob("*") if path.is_file()}
    return {path.as_posix() for path in paths if path.parts[0] != "segments"}


def campaign(folder: Path, calm: Checkout, rounds: int, seed: int, count: int) -> Counter[str]:
    """Play `count` faults in `folder` and judge; returns how many of each kind."""
    began, out = time.monotonic(), left_out(folder / "mount")
    order = order_of([kind for kind in ALL if kind not in out], count, seed)
    try:
        with (
            staged(folder, calm, rounds, seed) as scene,
            tqdm(total=count, unit="fault", mininterval=10) as bar,
        ):
            played, compared = play(scene, calm, order, bar)
    except BaseException:
        print((folder / "campaign.log").read_text()[-20000:], file=sys.stderr)
        raise
    print(f"seed {seed}, {time.monotonic() - began:.0f} s")
    for kind, reason in out.items():
        print(f"  {kind.__name__} left out: {reason}")
    for name, times in sorted(played.items()):
        print(f"  {name:20} {times:3}")
    print(f"  {'all':20} {played.total():3}\n  {compared}", flush=True)
    return played


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=100, help="faults")
    parser.add_argument("--rounds", type=int, default=10, help="of each run")
    chosen = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # nothing is left then, either
    with tempfile.TemporaryDirectory(prefix="faults") as name:
        folder = Path(name)
        calm = Checkout.made(folder / "calm", {}, IN_PEACE)
        undisturbed(calm, chosen.rounds, 1)
        (folder / "here").mkdir()
        campaign(folder / "here", calm, chosen.rounds, chosen.seed, chosen.count)


if __name__ == "__main__":
    main()
