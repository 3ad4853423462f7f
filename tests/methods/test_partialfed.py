"""PartialFed (a reconstruction): its gate against the reference, its limits, what it loads and keeps."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from fedshift.federation.client import Client
from fedshift.methods import partialfed
from fedshift.methods.partialfed import gumbel_gate, temperature
from fedshift.testing.toys import finish, method, small, spec
from tests.reference import Reference

RUN = spec(federation={"rounds": 3}, local={"epochs": 2})


@pytest.mark.parity
def test_gate() -> None:
    ref = Reference("partialfed_gumbel.json")
    logits, uniforms = ref.given("logits"), ref.given("uniform")
    ref.equals("gumbel", -(-uniforms.log()).log())
    soft = gumbel_gate(logits, uniforms, ref.given("tau"))
    ref.equals("soft", soft)
    ref.equals("hard", (soft == soft.max()).double())


def test_temperature_falls_exponentially() -> None:
    assert temperature(0, 5.0, 0.5, 500) == 5.0
    assert temperature(250, 5.0, 0.5, 500) == pytest.approx(2.5**0.5)
    assert temperature(500, 5.0, 0.5, 500) == pytest.approx(0.5)
    assert temperature(900, 5.0, 0.5, 500) == pytest.approx(0.5)


def forced(logit: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every gate says global (+) or own (-), and is not trained."""

    def force(self: partialfed.PartialFed, C: Client) -> None:
        C.slot.gates[:, 0] = logit

    monkeypatch.setattr(partialfed.PartialFed, "_train_gates", force)


def test_all_global_is_fedavg(monkeypatch: pytest.MonkeyPatch) -> None:
    forced(1.0, monkeypatch)
    ours = finish(small(RUN, method("partialfed")))
    assert ours.server.row.equal(finish(small(RUN, method("fedavg"))).server.row)


def test_all_own_is_local_training(monkeypatch: pytest.MonkeyPatch) -> None:
    forced(-1.0, monkeypatch)
    run = spec(federation={"rounds": 3}, local={"epochs": 2, "momentum": 0.9, "optimizer_state": "persist"})
    ours = finish(small(run, method("partialfed")))
    assert ours.state.slots["last"].equal(finish(small(run, method("local"))).state.own)


def test_the_first_round_loads_everything_and_trains_no_gate() -> None:
    run = spec(federation={"rounds": 1})
    ours = finish(small(run, method("partialfed")))
    assert ours.server.row.equal(finish(small(run, method("fedavg"))).server.row)
    assert not ours.state.slots["gates"].any()


def test_training_the_gates_moves_them_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    train = partialfed.PartialFed._train_gates
    looked: list[float] = []

    def spy(self: partialfed.PartialFed, C: Client) -> None:
        row, last, received = C.row.clone(), C.slot.last.clone(), C.received.clone()
        train(self, C)
        assert C.row.equal(row)
        assert C.slot.last.equal(last)
        assert C.received.equal(received)
        looked.append(C.slot.gates.abs().max().item())

    monkeypatch.setattr(partialfed.PartialFed, "_train_gates", spy)
    finish(small(RUN, method("partialfed", lr=10.0)))
    assert len(looked) == 6
    assert min(looked) > 0


def test_a_gate_learns_to_take_the_better_layer() -> None:
    """The global model is spoilt: its head says the opposite. The client's own head must win."""
    federation = small(spec(federation={"rounds": 6}, local={"epochs": 3}), method("partialfed", lr=5.0))
    at = federation.layout.under("head").at
    for _ in federation.run():
        federation.state.row[at] *= -5
    gates = federation.state.slots["gates"]
    assert gates.shape == (3, 5, 2)
    assert (gates[:, -1, 1] > gates[:, -1, 0]).all()


def test_what_is_loaded_follows_the_gates(monkeypatch: pytest.MonkeyPatch) -> None:
    def force(self: partialfed.PartialFed, C: Client) -> None:
        C.slot.gates[:, 0] = torch.tensor([1.0, -1.0, 1.0, -1.0, 1.0])

    begun: list[tuple[Tensor, Tensor, Tensor]] = []
    begin = partialfed.PartialFed.begin

    def spy(self: partialfed.PartialFed, C: Client) -> None:
        begin(self, C)
        if C.visits:
            begun.append((C.row.clone(), C.received.clone(), C.slot.last.clone()))

    monkeypatch.setattr(partialfed.PartialFed, "_train_gates", force)
    monkeypatch.setattr(partialfed.PartialFed, "begin", spy)
    federation = finish(small(spec(federation={"rounds": 2}), method("partialfed")))
    layers = list(federation.layout.layers(federation.layout.everything).values())
    for row, received, last in begun:
        for i, layer in enumerate(layers):
            assert row[layer.at].equal((received if i % 2 == 0 else last)[layer.at])


@pytest.mark.parametrize(("rule", "kept"), [("fix_bn_head", 4 * (16 + 32 + 64 + 64) + 130), ("fix_top", 130)])
def test_fixed_choices(rule: str, kept: int) -> None:
    federation = finish(small(spec(federation={"rounds": 1}), method("partialfed", rule=rule)))
    assert federation.state.local.size == kept
    assert federation.evaluator.reported == ("personal", "post_train")


def test_the_client_is_evaluated_with_its_own_last_model() -> None:
    federation = finish(small(spec(federation={"rounds": 1}), method("partialfed")))
    assert federation.evaluator.reported == ("personal", "post_train")
    assert not federation.state.slots["last"][0].equal(federation.server.row)
