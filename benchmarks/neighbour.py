"""What a run costs beside another of its kind: python benchmarks/neighbour.py [--rounds 5] [--each 200] [--work hfedf].

A round alone, then two rounds in two processes of one thread each; the same for the bare PyTorch loop of round.py, which tells what
the machine's cores give to two processes. Cores that share a unit, as two threads of one core do, slow both down.
"""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from multiprocessing.connection import Connection, wait
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from round import SIDES, prepared, processes, work

from fedshift.storage.workspace import Workspace


def play(pipes: list[Connection]) -> float:
    """One round in each process, at once; the mean of their seconds."""
    seconds, playing = dict.fromkeys(pipes, 0.0), [*pipes]
    for pipe in playing:
        pipe.send(True)
    while playing:
        ready = wait(playing)
        for pipe in [pipe for pipe in playing if pipe in ready]:
            wall, _, event = pipe.recv()
            seconds[pipe] += wall
            if event is None:
                pipe.send(True)
            else:
                playing.remove(pipe)
    return sum(seconds.values()) / len(pipes)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--work", choices=("hfedf", "fdse"), default="hfedf", help="(default hfedf)")
    parser.add_argument("--rounds", type=int, default=5, help="after one to warm up (default 5)")
    parser.add_argument("--each", type=int, default=200, help="images in each part of a client at most")
    options = parser.parse_args()
    spec = work(options.work, 64, 4 * (options.rounds + 1))
    with TemporaryDirectory() as folder, ExitStack() as stack:
        workspace = prepared(Workspace(Path(folder)), spec)
        both = [stack.enter_context(processes(workspace, spec, 1, True, options.each)) for _ in range(2)]
        pipes = {side: [one[side] for one in both] for side in SIDES}
        for side in SIDES:
            play(pipes[side])
        rows = []
        for turn in range(options.rounds):
            order = SIDES if turn % 2 == 0 else SIDES[::-1]
            times = {side: (play(pipes[side][:1]), play(pipes[side])) for side in order}
            rows.append(times)
            print({side: f"{alone:.2f} s, {two:.2f} s" for side, (alone, two) in times.items()}, flush=True)
    print("\n| | s/round alone | beside another | factor, median | least | most |\n|---|---|---|---|---|---|")
    for side in SIDES:
        alone, two = zip(*(times[side] for times in rows), strict=True)
        factors = sorted(beside / by_itself for by_itself, beside in zip(alone, two, strict=True))
        cells = [median(alone), median(two), median(factors), factors[0], factors[-1]]
        print(f"| {side} | {' | '.join(f'{cell:.2f}' for cell in cells)} |")


if __name__ == "__main__":
    main()
