"""The bare PyTorch loop of round.py, in the precision of the second argument."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from bare import Bare
from round import declared
from work import Clock, Work, torch

from fedshift.storage.workspace import Workspace


def main() -> None:
    """Train; a round ends when the average model has been evaluated."""
    torch.set_num_threads(1)
    work, clock, rounds = Work.read(Path(sys.argv[1])), Clock(), 0
    spec = declared(work.px, work.rounds, sys.argv[2], augment="none", input_px=work.px)
    prepared = Workspace(work.folder).prepared(spec.data.prepared_name)
    clock.round({})
    for event in Bare(prepared, spec, fused=True).rounds():
        if event is not None:
            clock.round(event[1])
            rounds += 1
        if rounds == work.rounds:
            return


if __name__ == "__main__":
    main()
