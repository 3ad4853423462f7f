"""pFedHN: one server step after each client, and hFedF as its limit."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from torch import Tensor

from fedshift.federation import loop
from fedshift.federation.batches import generator
from fedshift.federation.client import Client
from fedshift.federation.loop import Federation
from fedshift.federation.method import Method
from fedshift.methods.hfedf import hypernet
from fedshift.methods.hfedf.hypernet import Pullback, generate
from fedshift.testing.toys import finish, method, recorded, small, spec, trained

RUN = spec(local={"lr": 0.05}, federation={"rounds": 2})


def h_of(federation: Federation) -> Tensor:
    return finish(federation).server.slot.h


@pytest.mark.parametrize("rounds", [1, 3])
def test_with_one_client_and_adam_it_is_hfedf(rounds: int) -> None:
    run = spec(local={"lr": 0.05}, federation={"rounds": rounds})
    shared = {"lr": 0.01, "weight_decay": 0.001}
    one = small(run, method("pfedhn", optimizer="adam", clip=None, **shared), clients=1)
    other = small(run, method("hfedf", gradalign=False, ema=1.0, **shared), clients=1)
    assert h_of(one).equal(h_of(other))
    assert one.server.row.equal(other.server.row)
    three = small(run, method("pfedhn", optimizer="adam", clip=None, **shared))
    assert not h_of(three).equal(h_of(small(run, method("hfedf", gradalign=False, ema=1.0, **shared))))


def test_the_server_steps_after_every_client_in_random_order(monkeypatch: pytest.MonkeyPatch) -> None:
    received: list[tuple[int, Tensor]] = []
    pulled, train = recorded(hypernet, "pullback", monkeypatch), loop.train

    def spy(self: Client, hooks: Method) -> Tensor:
        received.append((self.k, self.received.clone()))
        return train(self, hooks)

    monkeypatch.setattr(loop, "train", spy)
    federation = finish(small(RUN, method("pfedhn")))
    order = [
        k for t in range(2) for k in torch.randperm(3, generator=generator(RUN.seed, "order", t)).tolist()
    ]
    assert [k for k, _ in received] == order
    assert [active for _, _, active, *_ in pulled] == [[k] for k in order]
    for (k, row), (net, h, *_) in zip(received, pulled, strict=True):
        assert row[federation.layout.W].equal(generate(net, h, k))
    for (_, before, *_), (_, after, *_) in itertools.pairwise(pulled):
        assert not before.equal(after)
    for _, _, active, _, back in pulled:
        assert back.inner[0, :3].nonzero().flatten().tolist() == active


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_the_server_is_one_optimiser_that_remembers(optimizer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    combined = recorded(Pullback, "combined", monkeypatch)
    hp: dict[str, Any] = {"lr": 0.02, "weight_decay": 0.1, "clip": None}
    federation = small(RUN, method("pfedhn", optimizer=optimizer, **hp))
    h = federation.server.slot.h.clone().requires_grad_()
    theirs = (
        torch.optim.SGD([h], lr=0.02, momentum=0.9, weight_decay=0.1)
        if optimizer == "sgd"
        else torch.optim.Adam([h], lr=0.02, weight_decay=0.1)
    )
    finish(federation)
    assert len(combined) == 6
    for _, weights, g in combined:
        assert weights.tolist() == [1]
        h.grad = g
        theirs.step()
    torch.testing.assert_close(federation.server.slot.h, h.detach(), rtol=1e-5, atol=1e-6)


def test_the_gradient_is_clipped_over_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    run = spec(local={"lr": 0.05}, federation={"rounds": 1})
    plain = {"lr": 1.0, "momentum": 0.0, "weight_decay": 0.0}
    federation = small(run, method("pfedhn", clip=1e-2, **plain), clients=1)
    start = federation.server.slot.h.clone()
    assert (h_of(federation) - start).norm().item() == pytest.approx(1e-2, rel=1e-3)
    loose, free = (h_of(small(run, method("pfedhn", clip=clip, **plain), clients=1)) for clip in (50.0, None))
    assert loose.equal(free)
    assert (free - start).norm() > 2e-2


def test_statistics_move_towards_each_client(monkeypatch: pytest.MonkeyPatch) -> None:
    federation = small(RUN, method("pfedhn"))
    B = federation.layout.B
    expected = federation.server.row[B].clone()
    for _, row in trained(federation, monkeypatch):
        expected = expected + (row[B] - expected) / 3
    torch.testing.assert_close(federation.server.row[B], expected)


def test_clients_that_do_not_move_leave_the_hypernetwork_as_it_is() -> None:
    run = spec(local={"lr": 0.0}, federation={"rounds": 2})
    federation = small(run, method("pfedhn", weight_decay=0.0))
    start = federation.server.slot.h.clone()
    assert h_of(federation).equal(start)


def test_defaults_are_those_of_the_released_code() -> None:
    hp = method("pfedhn").hp
    assert (hp.optimizer, hp.momentum, hp.clip) == ("sgd", 0.9, 50.0)


def test_a_small_federation_learns() -> None:
    run = spec(local={"lr": 0.001, "optimizer": "adam", "epochs": 4}, federation={"rounds": 12})
    federation = finish(small(run, method("pfedhn")))
    rows = federation.records.rows
    losses = [row["value"] for row in rows if row["metric"] == "loss" and row["split"] == "train"]
    assert sum(losses[-3:]) < sum(losses[:3])
