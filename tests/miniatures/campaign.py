"""Plays the miniatures of all experiments, one after the other in one project, so that what two share is trained once.

python -m tests.miniatures.campaign [NAME ...] [--again] [--write]

The project and what was played stay below build/miniatures, and what is there is not played again: whoever is cut off goes on.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from fedshift.analysis.page import piped
from fedshift.experiments.load import available
from fedshift.storage.workspace import Workspace
from tests.miniatures.play import Played, play
from tests.miniatures.world import world
from tests.mutants.score import commit, machine
from tests.workflow.checkout import REPOSITORY, Checkout

FOLDER = REPOSITORY / "build" / "miniatures"
PAGE = REPOSITORY / "docs" / "miniatures.md"
BEGIN, END = "<!-- played: written by `make miniatures` -->", "<!-- end of what was played -->"


def table(done: Sequence[Played], missing: int, by: Mapping[str, int]) -> str:
    """What was played, as Markdown; by: commit -> how many it played."""
    heads = ["experiment", "runs", "trained here", "CPU s", "cells", "filled"]
    rows = [_row(one.experiment, *one[1:6]) for one in done]
    total = [sum(values) for values in zip(*(one[1:6] for one in done), strict=True)]
    left = f"; {missing} experiments were not played" if missing else ""
    players = " and ".join(
        f"`{name}` ({count})" if len(by) > 1 else f"`{name}`" for name, count in by.items()
    )
    head = (
        f"Made by {players} on {machine()}: {len(done)} experiments, {total[2] / 60:.0f} CPU minutes{left}."
    )
    return head + "\n\n" + piped([heads, *rows, _row("all", *total)], ["---", *["---:"] * (len(heads) - 1)])


def _row(name: str, *numbers: float) -> list[str]:
    return [name, *(str(round(number)) for number in numbers)]


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.miniatures.campaign", description=__doc__.splitlines()[0]
    )
    parser.add_argument("names", nargs="*", help="experiments; without one all")
    parser.add_argument("--again", action="store_true", help="forget what was played")
    parser.add_argument("--write", action="store_true", help="write the table of docs/miniatures.md")
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
        _file(name).write_text(json.dumps({"commit": commit(REPOSITORY), "played": one._asdict()}))
        print(f"{name}: {one.new} of {one.runs} runs trained, {one.seconds:.0f} s", flush=True)
    files = [json.loads(_file(name).read_text()) for name in every if _file(name).exists()]
    done = [Played(**file["played"]) for file in files]
    checkout.python("-m", "fedshift", "scorecard")
    text = table(done, len(every) - len(done), Counter(file["commit"] for file in files))
    print(text)
    if chosen.write:
        before, _, rest = PAGE.read_text().partition(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}\n{text}\n{END}{rest.partition(END)[2]}")
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}")


def _file(name: str) -> Path:
    return FOLDER / "played" / f"{name}.json"


if __name__ == "__main__":
    main()
