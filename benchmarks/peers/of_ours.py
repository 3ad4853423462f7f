"""fedshift's engine, as `fedshift train` drives it, in the precision of the second argument."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from round import declared, ours
from work import Clock, Work, torch

from fedshift.storage.workspace import Workspace


def main() -> None:
    """Train; a round ends when the engine has evaluated it."""
    torch.set_num_threads(1)
    work, clock = Work.read(Path(sys.argv[1])), Clock()
    spec = declared(work.px, work.rounds, sys.argv[2], augment="none", input_px=work.px)
    clock.round({})
    ours(Workspace(work.folder), spec, lambda event: clock.round(event[1]) if event else None)


if __name__ == "__main__":
    main()
