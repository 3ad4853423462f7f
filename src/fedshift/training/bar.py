"""A progress bar over a run's rounds that moves with each client."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tqdm import tqdm

from fedshift.federation.batches import participants
from fedshift.federation.loop import Federation

SHAPE = "{desc} {percentage:3.0f}%|{bar}| {elapsed} elapsed, {remaining} remaining{postfix}"


@contextmanager
def progress(federation: Federation, shown: bool) -> Iterator[None]:
    """Show a bar on the terminal's standard error while the federation trains in the block; without a
    terminal, or where it is not `shown`, none.
    """
    run = federation.spec.federation
    each = len(participants(len(federation.clients), run.participation, federation.spec.seed, 0))
    done, total = federation.round * each, run.rounds * each
    disable = None if shown else True
    with tqdm(total=total, initial=done, bar_format=SHAPE, disable=disable, smoothing=0, leave=False) as bar:

        def trained() -> None:
            bar.set_description_str(f"round {federation.round + 1} of {run.rounds}", refresh=False)
            means = (f"{name} {100 * value:.1f}" for name, value in accuracies(federation).items())
            bar.set_postfix_str(", ".join(means), refresh=False)
            bar.update()

        federation.on_client = (lambda: None) if bar.disable else trained
        yield


def accuracies(federation: Federation) -> dict[str, float]:
    """Mean accuracies after the last finished round, if it was evaluated: `in`, on the clients' images, and
    `out`, on the held-out domain.
    """
    measured: dict[str, list[float]] = {}
    for row in federation.records.rows:
        if row["round"] == federation.round and row["metric"] == "accuracy":
            measured.setdefault("in" if row["client"] >= 0 else "out", []).append(row["value"])
    return {name: sum(values) / len(values) for name, values in measured.items()}
