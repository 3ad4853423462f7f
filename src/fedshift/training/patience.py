"""Early stop: rounds until a run has not got better for as long as it may."""

from __future__ import annotations

from collections.abc import Iterator

from fedshift.federation.loop import Federation


def rounds(federation: Federation) -> Iterator[int]:
    """What `Federation.run` yields, to the last round or to the one that `federation.patience` ends."""
    events = federation.run()
    while not stalled(federation) and (finished := next(events, None)):
        yield finished


def stalled(federation: Federation) -> bool:
    """Whether a run is to stop here, between two rounds: its last round was evaluated, and the highest
    validation accuracy is `patience` rounds old or older.
    """
    patience, best = federation.spec.federation.patience, federation.evaluator.selection.round.get("first")
    if patience is None or best is None:
        return False
    evaluated = federation.round % federation.spec.evaluation.every == 0
    return evaluated and federation.round - best >= patience
