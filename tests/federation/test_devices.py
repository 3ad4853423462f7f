"""Rounds on an accelerator, played by the `meta` device: nothing mixes devices, no training step waits, and a round waits as seldom as it can."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor

from fedshift.common.registry import get, names
from fedshift.data.augment import Augment, Evaluate
from fedshift.federation import evaluator, loop
from fedshift.federation.client import Client, Role, Worker
from fedshift.federation.loop import Federation
from fedshift.federation.method import Method
from fedshift.federation.samples import Batch, Samples
from fedshift.federation.server import Server
from fedshift.testing.meta import META, Mixed, Operations, Remembered, Sends, accelerator, place
from fedshift.testing.toys import images, method, spec

ROUNDS = 2
VARIANTS: list[tuple[str, dict[str, Any]]] = [
    ("fdse", {"consensus": "tensor", "similarity": "tensor", "consistency": "code_head"}),
    ("fdse", {"consensus": "none", "similarity": "mean", "consistency": "code_v1", "unseen_dse": "init"}),
    ("feddg_ga", {"fair": "acc", "ga_center": True}),
    ("hfedf", {"embedding": "pre_learned"}),
    ("hfedf", {"embedding": "random"}),
    ("partialfed", {"rule": "fix_bn_head"}),
    ("partialfed", {"rule": "fix_top"}),
    ("stablefdg", {"p": 1.0, "sharing": "largest_distance", "styles": 2, "attention": "cross"}),
    ("stablefdg", {"p": 1.0, "shift": "official", "oversampling": "random", "singletons": "cross"}),
]


class Played:
    """What a federation did: `waits`, reads of each round, and `steps`, waits within training steps, by place; `tested`: rows of each round.

    A step begins with a batch, of training or of a pass in `begin`. What is sent in the first round, or while a network is built, is sent
    once and no wait of a step. Round 1 holds the test of the start, too.
    """

    def __init__(self, chosen: Method, patch: pytest.MonkeyPatch, **options: Any) -> None:
        self.round, self.waits, self.steps = 1, [Counter[str]() for _ in range(ROUNDS + 2)], Counter[str]()
        self.tested: Counter[int] = Counter()
        self._within = self._training = False
        self._patch(patch)
        with accelerator(), Sends(self.note), Remembered(), Operations(self.note):
            for event in accelerated(chosen, **options).run():
                self.round += event == "round"

    def note(self, kind: str, what: str) -> None:
        """Count a read or a send."""
        told = f"{place()}: {what}"
        if kind == "read":
            self.waits[self.round][told] += 1
        if self._within and (kind == "read" or self.round > 1):
            self.steps[told] += 1

    def beyond(self, t: int) -> int:
        """Reads of round t, from 1, beside one of its losses and one of each row tested."""
        return self.waits[t].total() - 1 - self.tested[t]

    def faults(self, declared: int) -> list[str]:
        """What is wrong, in words: waits within steps, and rounds that wait more often than declared."""
        told = [f"within a step, {count} times: {what}" for what, count in self.steps.items()]
        for t in range(1, ROUNDS + 1):
            if self.beyond(t) > declared:
                told.append(
                    f"round {t} waits {self.beyond(t)} times more than it must, not {declared}: {self.waits[t]}"
                )
        return told

    @contextmanager
    def _step(self, within: bool) -> Iterator[None]:
        before, self._within = self._within, within
        try:
            yield
        finally:
            self._within = before

    def _patch(self, patch: pytest.MonkeyPatch) -> None:
        send, train, batches, network = Samples._send, loop.train, Client.batches, Worker.network
        evaluate = evaluator.evaluate

        def training(client: Client, hooks: Method) -> Tensor:
            self._training = True
            with self._step(False):  # until the first batch is sent
                result = train(client, hooks)
            self._training = False
            return result

        def sending(samples: Samples, batch: Batch) -> Batch:
            self._within |= self._training
            return send(samples, batch)

        def passing(client: Client) -> Iterator[tuple[Tensor, Tensor]]:
            for batch in batches(client):
                with self._step(True):
                    yield batch

        def building(worker: Worker, role: Role) -> Any:
            with self._step(False):
                return network(worker, role)

        def testing(*args: Any) -> Any:
            scored = evaluate(*args)
            self.tested[self.round] += bool(scored)
            return scored

        patch.setattr(loop, "train", training)
        patch.setattr(Samples, "_send", sending)
        patch.setattr(Client, "batches", passing)
        patch.setattr(Worker, "network", building)
        patch.setattr(evaluator, "evaluate", testing)


def accelerated(chosen: Method, augmentation: str = "flip", **options: Any) -> Federation:
    """Three clients' federation of digits_cnn with everything on the device, or its images on the host (resident_bytes=0)."""
    given, held, target = images()
    augment, evaluate = Augment(augmentation, 32, 32, "half"), Evaluate(32, 32, "half")
    samples = Samples(
        given.pixels, given.labels, augment, evaluate, evaluate.mean, evaluate.deviation, META, **options
    )
    model = get("models", "digits_cnn")
    run = spec(local={"clip": 5.0}, federation={"rounds": ROUNDS})
    return Federation(run, chosen, lambda: model(2, 32), samples, held, target)


@pytest.mark.parametrize("name", names("methods"))
def test_no_method_mixes_devices_or_waits_more_than_it_declares(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    played = Played(method(name), monkeypatch)
    assert not played.faults(get("methods", name).waits)
    assert max(played.beyond(t) for t in range(1, ROUNDS + 1)) == get("methods", name).waits


@pytest.mark.parametrize(("name", "hp"), VARIANTS)
def test_nor_do_their_variants(name: str, hp: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = method(name, **hp)
    assert not Played(chosen, monkeypatch).faults(chosen.waits)


@pytest.mark.parametrize("augmentation", ["translate", "domainbed"])
def test_nor_does_augmentation(augmentation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not Played(method("fedavg"), monkeypatch, augmentation=augmentation).faults(0)


@pytest.mark.parametrize("name", ["fedavg", "feddg", "fediir", "partialfed", "stablefdg"])
def test_nor_does_anything_wait_for_images_that_stay_on_the_host(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = method(name)
    assert not Played(chosen, monkeypatch, resident_bytes=0).faults(chosen.waits)


# ---- that the instrument sees


class Clumsy(Method):
    """FedAvg that does something in each training step, and something at the server."""

    name = "clumsy"
    waits = 1

    def __init__(self, step: Callable[[Tensor], object], server: Callable[[Tensor], object]) -> None:
        super().__init__()
        self._step, self._server = step, server

    def loss(self, C: Client, x: Tensor, y: Tensor) -> Tensor:
        self._step(x.detach())
        return super().loss(C, x, y)

    def aggregate(self, S: Server, rows: Tensor, p: Tensor, up: Mapping[str, Tensor]) -> None:
        super().aggregate(S, rows, p, up)
        self._server(rows)


def nothing(x: Tensor) -> None:
    """Neither waits nor mixes."""


@pytest.mark.parametrize(
    "wait",
    [
        lambda x: x.sum().item(),
        lambda x: bool(x.any()),
        lambda x: int(x.sum()),
        lambda x: x.tolist(),
        lambda x: x.cpu(),
        lambda x: torch.empty(x.shape).copy_(x),
        lambda x: x.nonzero(),
        lambda x: x[x > 0],
        lambda x: x.equal(x),
        lambda x: x.unique(),
        lambda x: torch.linalg.eigh(x[0, 0]),
        lambda x: torch.zeros(3).to(x),
        lambda x: x.new_tensor([1.0]),
        lambda x: torch.tensor([1.0], device=x.device),
        lambda x: x[[0, 1]],
    ],
)
def test_a_wait_within_a_step_is_seen(
    wait: Callable[[Tensor], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    faults = Played(Clumsy(wait, nothing), monkeypatch).faults(1000)
    assert len(faults) == 1
    assert faults[0].startswith("within a step")
    assert "federation/local.py" in faults[0]


def test_waits_beyond_those_declared_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = Clumsy(nothing, lambda rows: (rows.sum().item(), rows.sum().item()))
    first, second = Played(chosen, monkeypatch).faults(chosen.waits)
    assert first.startswith("round 1 waits 2 times more than it must, not 1")
    assert second.startswith("round 2")
    assert "federation/loop.py" in second


@pytest.mark.parametrize(
    ("operation", "name"),
    [
        (lambda rows: rows + torch.zeros(rows.shape[1]), "aten.add"),
        (lambda rows: rows @ torch.zeros(rows.shape[1]), "aten.mv"),
        (lambda rows: rows[:, torch.tensor([0, 1])], "aten.index"),
        (lambda rows: rows.index_select(1, torch.tensor([0, 1])), "aten.index_select"),
        (lambda rows: torch.where(torch.ones(rows.shape[1], dtype=torch.bool), rows, 0.0), "aten.where"),
    ],
)
def test_an_operation_that_mixes_devices_is_named_with_its_place(
    operation: Callable[[Tensor], object], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(Mixed, match=rf"federation/loop\.py:\d+ _aggregate: {name}"):
        Played(Clumsy(nothing, operation), monkeypatch)


def test_a_number_of_the_host_is_no_mix(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = Clumsy(lambda x: x * torch.tensor(2.0), lambda rows: rows.sum().add(torch.tensor(1.0)))
    assert not Played(chosen, monkeypatch).faults(0)
