"""StableFDG: the order of its round, what travels, what reaches the loss."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from fedshift.federation import loop
from fedshift.federation.client import Client
from fedshift.federation.loop import cross_entropy
from fedshift.federation.method import Method
from fedshift.methods.stablefdg import Steps, shares
from fedshift.models.layers.style import Style
from fedshift.testing.toys import finish, method, small, spec
from tests.methods.stablefdg_toys import cost


def test_styles_travel_before_anybody_trains(monkeypatch: pytest.MonkeyPatch) -> None:
    """Order of a round: received model, style of its stage 1, another's style, training from the received model."""
    events: list[str] = []
    taken: list[Tensor] = []
    sent: list[Tensor] = []
    kind = type(method("stablefdg"))
    phi, setup, train = kind._phi, kind.setup, loop.train

    def visited(self: Any, C: Client) -> Any:
        events.append(f"visit {C.k}")
        assert C.model.training
        assert C.row.equal(C.received)
        batches = list(C.batches())
        z = torch.cat([C.model.stages["stage1"](x) for x, _ in batches])
        mu, sigma = z.mean((2, 3)), (z.var((2, 3), correction=0) + 1e-12).sqrt()
        expected = torch.stack(
            [mu.mean(0), sigma.mean(0), mu.var(0, correction=0), sigma.var(0, correction=0)]
        )
        found = phi(self, C)
        torch.testing.assert_close(found["style"], expected)
        assert not found["style"].requires_grad
        sent.append(found["style"])
        return found

    def begun(self: Any, S: Any, visit: Any) -> Any:
        sent.clear()
        down = setup(self, S, visit)
        events.append("send")
        for k in range(3):
            own = [j for j in range(3) if sent[j].equal(down["style"][k, 0])]
            assert len(own) == 1
            assert own[0] != k
        taken.extend(down["style"])
        return down

    def trained(self: Client, hooks: Method) -> Any:
        events.append(f"train {self.k}")
        assert self.down.style.equal(taken[-3 + self.k])
        assert self.row.equal(run.state.row)
        return train(self, hooks)

    monkeypatch.setattr(kind, "_phi", visited)
    monkeypatch.setattr(kind, "setup", begun)
    monkeypatch.setattr(loop, "train", trained)
    run = small(spec(), method("stablefdg"))
    finish(run)
    one = ["visit 0", "visit 1", "visit 2", "send", "train 0", "train 1", "train 2"]
    assert events == one * 2


def test_bytes_are_the_model_and_one_style() -> None:
    run = finish(small(spec(), method("stablefdg")))
    phi = 4 * 16 * 4
    assert cost(run, "bytes_up") == [3 * (4 * run.layout.size + phi)] * 2
    assert cost(run, "bytes_down") == [3 * (4 * run.layout.size + phi)] * 2
    three = finish(small(spec(), method("stablefdg", styles=2)))
    assert cost(three, "bytes_down") == [3 * (4 * run.layout.size + 2 * phi)] * 2
    later = finish(small(spec(), method("stablefdg", share_from_round=1)))
    assert cost(later, "bytes_up") == [3 * 4 * run.layout.size, 3 * (4 * run.layout.size + phi)]


@pytest.mark.parametrize(
    ("hp", "clients", "participation"),
    [
        ({}, 1, 1.0),
        ({}, 3, 0.34),
        ({"styles": 0}, 3, 1.0),
        ({"p": 0.0}, 3, 1.0),
        ({"centralized": True}, 3, 1.0),
    ],
)
def test_no_style_arrives(
    hp: dict[str, Any], clients: int, participation: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    train = loop.train

    def spy(self: Client, hooks: Method) -> Tensor:
        assert not hasattr(self.down, "style")
        return train(self, hooks)

    monkeypatch.setattr(loop, "train", spy)
    run = spec(federation={"rounds": 2, "participation": participation})
    made = finish(small(run, method("stablefdg", **hp), clients=clients))
    assert made.state.row.isfinite().all()


def rows_of_a_step(**hp: Any) -> set[int]:
    """Sizes of the batches that reach the loss."""
    seen: set[int] = set()

    def criterion(logits: Tensor, y: Tensor) -> Tensor:
        assert len(logits) == len(y)
        seen.add(len(y))
        return cross_entropy(logits, y)

    finish(small(spec(federation={"rounds": 1}), method("stablefdg", **hp), criterion=criterion))
    return seen


@pytest.mark.parametrize(
    ("hp", "sizes"),
    [
        ({"p": 1.0}, {16, 12}),
        ({"p": 1.0, "positions": ["stage3", "stage4"], "attention": "none"}, {16, 12}),
        ({"p": 1.0, "size": 3}, {11, 9}),
        ({"p": 1.0, "size": 0}, {8, 6}),
        ({"p": 1.0, "positions": []}, {8, 6}),
        ({"p": 0.0}, {8, 6}),
        ({"p": 1.0, "attention": "convolution"}, {16, 12}),
    ],
)
def test_the_loss_sees_the_enlarged_batch(hp: dict[str, Any], sizes: set[int]) -> None:
    assert rows_of_a_step(**hp) == sizes


@pytest.mark.parametrize("p", [1.0, 0.5])
def test_coins(p: float, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = {"shift": 0, "explore": 0}
    shapes: set[int] = set()

    def shift(self: Steps, own: Style, new: Style) -> Style:
        counts["shift"] += 1
        shapes.add(own.mu.shape[1])
        return original(self, own, new)

    original = Steps._shifted
    monkeypatch.setattr(Steps, "_shifted", shift)

    def counted(*args: Any) -> Tensor:
        counts["explore"] += 1
        return shares(*args)

    monkeypatch.setattr("fedshift.methods.stablefdg.shares", counted)
    finish(
        small(spec(local={"epochs": 4}, federation={"rounds": 4}), method("stablefdg", p=p, attention="none"))
    )
    total = 4 * 4 * (2 + 1 + 2)  # rounds, epochs, the clients' batches
    assert counts["shift"] == pytest.approx(total * p, abs=0 if p == 1 else 4 * (total / 4) ** 0.5)
    assert counts["explore"] == pytest.approx(3 * total * p, abs=0 if p == 1 else 4 * (3 * total / 4) ** 0.5)
    assert shapes == {16}  # at stage 1 only
