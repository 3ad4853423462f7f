"""A progress bar over a run's rounds that moves inside the round."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator
from typing import Any

from tqdm import tqdm

from fedshift.federation.batches import participants
from fedshift.federation.loop import Federation

POLL_SECONDS = 0.2
SHAPE = "{desc} {percentage:3.0f}%|{bar}| {elapsed} gone, {remaining} left{postfix}"


def watched(federation: Federation, events: Iterator[str]) -> Generator[str, None, None]:
    """`events` of a federation (`Federation.run`), with a bar on the terminal's standard error while they
    come; without a terminal none is drawn.
    """
    rounds = federation.spec.federation.rounds
    with tqdm(
        total=rounds, initial=federation.round, bar_format=SHAPE, disable=None, smoothing=0, leave=False
    ) as bar:
        if bar.disable:
            yield from events
            return
        ended, reached = threading.Event(), Reached(federation)
        drawer = threading.Thread(target=_draw, args=(bar, reached, ended), daemon=True)
        drawer.start()
        try:
            for event in events:
                reached.note(event)
                yield event
        finally:
            ended.set()
            drawer.join()


def _draw(bar: tqdm[Any], reached: Reached, ended: threading.Event) -> None:
    while not ended.wait(POLL_SECONDS):
        bar.n = max(bar.n, reached.rounds)
        bar.set_description_str(reached.words, refresh=False)
        bar.set_postfix_str(reached.accuracies, refresh=False)
        bar.refresh()


class Reached:
    """How far a federation is, while it trains in another thread.

    accuracies: in percent after the last round that was evaluated, as text
    """

    def __init__(self, federation: Federation) -> None:
        self.federation, self.accuracies = federation, ""
        train = sum(len(client.train) for client in federation.clients) / len(federation.clients)
        # Images that a client's round takes: a pass in each epoch, until the first client has shown it.
        self._expected = max(1.0, train * federation.spec.local.epochs)
        share = federation.spec.federation.participation
        self._clients = len(participants(len(federation.clients), share, federation.spec.seed, 0))
        self._finished, self._done, self._before = federation.round, 0, 0.0

    def note(self, event: str) -> None:
        """Take up an event of `Federation.run`."""
        if event == "round":
            self._finished, self._done, self._before = self.federation.round, 0, 0.0
            means = (f"{name} {100 * value:.1f}" for name, value in accuracies(self.federation).items())
            self.accuracies = ", ".join(means) or self.accuracies
            return
        self._done, self._before = self._done + 1, self.federation.worker.passes.images
        self._expected = max(1.0, self._before / self._done)

    @property
    def words(self) -> str:
        """`round 3 of 8`."""
        total = self.federation.spec.federation.rounds
        return f"round {min(self._finished + 1, total)} of {total}"

    @property
    def rounds(self) -> float:
        """Rounds that are trained, with the part of the one under way: its clients that are done, and of the
        next one the images that went through its networks.
        """
        part = max(0.0, (self.federation.worker.passes.images - self._before) / self._expected)
        return self._finished + (self._done + min(1.0, part)) / self._clients


def accuracies(federation: Federation) -> dict[str, float]:
    """Mean accuracies after the last round where they were measured: `in`, on the clients' images, and `out`,
    on the held-out domain.
    """
    measured: dict[str, list[float]] = {}
    for row in federation.records.rows:
        if row["round"] == federation.round and row["metric"] == "accuracy":
            measured.setdefault("in" if row["client"] >= 0 else "out", []).append(row["value"])
    return {name: sum(values) / len(values) for name, values in measured.items()}
