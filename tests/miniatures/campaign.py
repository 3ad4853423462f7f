"""Runs the miniatures of all experiments, one after the other in one project, so that shared runs are trained once.

python -m tests.miniatures.campaign [NAME ...] [--again] [--write]

The project and the results stay in build/miniatures. Existing results are reused, so an interrupted campaign resumes.
"""

from __future__ import annotations

import argparse
import csv
import json
import shutil
from collections.abc import Sequence
from pathlib import Path

from fedshift.experiments.load import available
from fedshift.storage.workspace import Workspace
from tests.miniatures.play import Played, play
from tests.miniatures.world import world
from tests.workflow.checkout import REPOSITORY, Checkout

FOLDER = REPOSITORY / "build" / "miniatures"
PLAYED = Path(__file__).with_name("played.csv")


def write(done: Sequence[Played]) -> None:
    """Write how long each miniature took to PLAYED."""
    with PLAYED.open("w", newline="") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow(["experiment", "runs", "new", "seconds", "cells", "filled"])
        lines.writerows([one.experiment, *(round(number) for number in one[1:6])] for one in done)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.miniatures.campaign", description=__doc__.splitlines()[0]
    )
    parser.add_argument("names", nargs="*", help="experiments; without one all")
    parser.add_argument("--again", action="store_true", help="start from scratch")
    parser.add_argument("--write", action="store_true", help=f"write {PLAYED.name}")
    chosen = parser.parse_args()
    if chosen.again:
        shutil.rmtree(FOLDER, ignore_errors=True)
    every = available(Workspace(REPOSITORY))
    root = FOLDER / "project"
    checkout = Checkout(root) if root.exists() else world(root)
    failed = []
    for name in chosen.names or every:
        if _file(name).exists():
            continue
        try:
            one = play(checkout, name)
        except AssertionError as error:
            failed.append(name)
            print(f"{name}: failed\n{error}", flush=True)
            continue
        _file(name).parent.mkdir(parents=True, exist_ok=True)
        _file(name).write_text(json.dumps(one._asdict()))
        print(f"{name}: {one.new} of {one.runs} runs trained, {one.seconds:.0f} s", flush=True)
    done = [Played(**json.loads(_file(name).read_text())) for name in every if _file(name).exists()]
    checkout.python("-m", "fedshift", "scorecard")
    minutes = sum(one.seconds for one in done) / 60
    print(f"{len(done)} of {len(every)} experiments, {minutes:.0f} CPU minutes")
    if chosen.write:
        write(done)
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}")


def _file(name: str) -> Path:
    return FOLDER / "played" / f"{name}.json"


if __name__ == "__main__":
    main()
