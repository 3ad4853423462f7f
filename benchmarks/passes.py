"""Plays some rounds of a method in a small federation and counts: passes of images, bytes, messages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from torch import Tensor, nn

from fedshift.federation import cost
from fedshift.federation.loop import Federation, Transfer
from fedshift.federation.samples import ClientData, Samples
from fedshift.models.base import Model
from fedshift.testing.toys import images, method, spec

FIRST, LAST = 3, 5  # rounds that count, from 1: what is sent once and terms that start later lie before
STEPS = "steps"
Pair = tuple[Fraction, Fraction]  # forward, backward


@dataclass(frozen=True)
class Played:
    """A federation after round LAST, and what it did in rounds FIRST to LAST.

    steps: passes in local steps for each training image that a client holds, where FedAvg has (1, 1); outside: split -> passes before
    and after the steps for each image of that split; bytes: way -> (one client's in a round, how many more it had in all rounds before);
    copies: images that are trained on for each that is held;
    floats: (message, way) -> round from 1 -> the most numbers that one client sent or got.
    """

    federation: Federation
    steps: Pair
    outside: dict[str, Pair]
    bytes: dict[str, tuple[int, int]]
    copies: int
    floats: dict[tuple[str, str], dict[int, int]]


class Passes:
    """Images that went through networks, by where and direction; each of a network's stages is an equal part of a pass."""

    def __init__(self, held: list[ClientData]) -> None:
        self.seen: defaultdict[tuple[str, str], Fraction] = defaultdict(Fraction)
        self._where, self._outside = STEPS, False
        splits = ("train", "val", "test")
        self.engine = cost.Passes()  # the federation's, once it is made
        self._split = {int(i): name for client in held for name in splits for i in client.split(name)}

    def watch(self, model: Model) -> Model:
        """Count what goes through a network from now on."""
        part = Fraction(1, len(model.stages))

        def count(stage: nn.Module, inputs: Any, output: Tensor) -> None:
            where, size = self._where, part * len(output)
            self.seen[where, "forward"] += size
            if output.requires_grad:
                output.register_hook(lambda g: self._returned(where, size))

        for stage in model.stages.values():
            stage.register_forward_hook(count)
        return model

    def _returned(self, where: str, size: Fraction) -> None:
        if self.engine.counting:  # not while a method measures something of itself
            self.seen[where, "backward"] += size

    def outside(self, hook: Callable[..., Any]) -> Callable[..., Any]:
        """A hook of a method whose passes are no steps: they count for the split that its images are from."""

        def called(*args: Any) -> Any:
            self._outside = True
            result = hook(*args)
            self._where, self._outside = STEPS, False
            return result

        return called

    def notice(self, samples: Samples) -> None:
        """Look at which images are taken."""
        take = samples.take

        def taken(index: Tensor) -> tuple[Tensor, Tensor]:
            self._where = self._split[int(index[0])] if self._outside else STEPS
            return take(index)

        samples.take = taken  # type: ignore[method-assign]

    def of(self, where: str, held: int) -> Pair:
        """Forward and backward passes for each of `held` images."""
        return self.seen[where, "forward"] / Fraction(held), self.seen[where, "backward"] / Fraction(held)


class Noted(Transfer):
    """Counts bytes as ever and notes how many numbers each message has."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.floats: dict[tuple[str, str], int] = {}

    def messages_up(self, messages: Mapping[str, Tensor] | None) -> dict[str, Tensor]:
        self._note(messages or {}, "up")
        return super().messages_up(messages)

    def messages_down(self, client: int, messages: Mapping[str, Tensor]) -> dict[str, Tensor]:
        self._note(messages, "down")
        return super().messages_down(client, messages)

    def _note(self, messages: Mapping[str, Tensor], way: str) -> None:
        for name, value in messages.items():
            self.floats[name, way] = max(value.numel(), self.floats.get((name, way), 0))


def play(name: str) -> Played:
    """Rounds 1 to LAST of `name` with digits_cnn, three clients and batches that leave no remainder; nothing is evaluated meanwhile."""
    run = spec(
        method={"name": name}, local={"batch": 4, "lr": 0.01},
        federation={"rounds": LAST + 1}, evaluation={"every": LAST + 1, "keep": "none"},
    )  # fmt: skip
    algorithm, (samples, plain, target) = method(name), images()
    copies = rendering.copies if (rendering := run.rendering) else 1
    held = [replace(client, train=client.train.repeat_interleave(copies)) for client in plain]
    passes, change = Passes(held), algorithm.model
    algorithm.model = lambda model: passes.watch(change(model))  # type: ignore[method-assign]
    for hook in ("setup", "begin", "end"):
        setattr(algorithm, hook, passes.outside(getattr(algorithm, hook)))
    federation = Federation(
        run, algorithm, lambda: run.model.build(2, run.data.input_px), samples, held, target, transfer=Noted
    )
    passes.notice(samples)
    passes.engine = federation.worker.passes
    floats = _rounds(federation, passes)
    rounds = LAST - FIRST + 1
    sizes = {split: sum(len(client.split(split)) for client in held) for split in ("train", "val", "test")}
    outside = {split: passes.of(split, rounds * size) for split, size in sizes.items()}
    return Played(
        federation=federation,
        steps=passes.of(STEPS, rounds * sum(len(client.train) for client in plain)),
        outside={split: pair for split, pair in outside.items() if any(pair)},
        bytes={way: _bytes(federation, f"bytes_{way}") for way in ("up", "down")},
        copies=copies,
        floats=floats,
    )


def _rounds(federation: Federation, passes: Passes) -> dict[tuple[str, str], dict[int, int]]:
    """Play them; passes are those of the rounds that count. Returns what each message had in each round."""
    floats: dict[tuple[str, str], dict[int, int]] = defaultdict(dict)
    for _ in federation.run():
        for message, size in federation.transfer.floats.items():  # type: ignore[attr-defined]
            floats[message][federation.round] = size
        federation.transfer.floats.clear()  # type: ignore[attr-defined]
        if federation.round < FIRST:
            passes.seen.clear()
        if federation.round == LAST:
            break
    return floats


def _bytes(federation: Federation, metric: str) -> tuple[int, int]:
    rows = federation.records.rows
    by_round = [int(row["value"]) // len(federation.clients) for row in rows if row["metric"] == metric]
    later = by_round[FIRST - 1]
    if any(value != later for value in by_round[FIRST - 1 :]):
        raise ValueError(f"{federation.method.name}: {metric} differ between rounds {FIRST} and {LAST}")
    return later, sum(value - later for value in by_round[: FIRST - 1])
