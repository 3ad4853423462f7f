"""Ditto: the personal model beside the global one, on quadratics by hand and against the reference; its start, statistics, evaluation."""

from __future__ import annotations

import pytest
import torch

from fedshift.federation.batches import participants
from fedshift.federation.evaluate import evaluate
from fedshift.methods.ditto import pull
from fedshift.testing.toys import finish, images, method, quadratics, small, spec
from tests.reference import Reference

PLACE = [1.0, 2.0], [0.0, 3.0], 1.0, 0.1, 3  # h, c, start, rate, steps


@pytest.mark.parity
def test_two_rounds_follow_the_reference() -> None:
    ref = Reference("fedavg_family_quadratic.json")
    place = [ref.given(name) for name in ("h", "c", "w0", "eta", "K")]
    for t in map(int, ref.keys("ditto")):
        run = finish(quadratics(method("ditto", lam=ref.given("ditto_lambda")), *place, rounds=t + 1))
        ref.equals(f"ditto.{t}.global_", run.server.row[0])
        ref.equals(f"ditto.{t}.personal", run.state.slots["v"].flatten())


def test_the_pull_by_hand() -> None:
    v, received = torch.tensor([1.0, 2.0], requires_grad=True), torch.tensor([0.5, 4.0])
    assert pull(v, received, 0.5).tolist() == [0.25, -1.0]
    (0.5 / 2 * (v - received).square().sum()).backward()
    assert v.grad is not None
    assert v.grad.tolist() == [0.25, -1.0]


@pytest.mark.parametrize(
    ("rounds", "shared", "personal"),
    [
        # lam .5, pulled to 1. Client 0: v -= .1 (v + .5 (v - 1)): 1, .9, .815, .74275. Client 1: v -= .1 (2 (v - 3) + .5 (v - 1)): 1, 1.4, 1.7, 1.925.
        (1, 1.3525, [0.74275, 1.925]),
        # On from there, pulled to 1.3525. Client 0: .6989625, .661743125, .63010665625. Client 1: 2.111375, 2.25115625, 2.3559921875.
        (2, 1.57122625, [0.63010665625, 2.3559921875]),
    ],
)
def test_rounds_by_hand(rounds: int, shared: float, personal: list[float]) -> None:
    run = finish(quadratics(method("ditto", lam=0.5), *PLACE, rounds=rounds))
    assert run.server.row.item() == pytest.approx(shared)
    assert run.state.slots["v"].flatten().tolist() == pytest.approx(personal)


def test_a_personal_model_starts_from_the_first_model_received() -> None:
    """One of two clients a round, written out in plain numbers; who is away keeps its model."""
    h, c, start, lr, steps = PLACE
    run = quadratics(method("ditto", lam=0.5), *PLACE, rounds=5, federation={"participation": 0.5})
    w, personal = start, dict[int, float]()
    for t in range(5):
        (k,) = participants(2, 0.5, 0, t)
        received, v = w, personal.get(k, w)
        for _ in range(steps):
            w -= lr * h[k] * (w - c[k])
            v -= lr * (h[k] * (v - c[k]) + 0.5 * (v - received))
        personal[k] = v
    assert personal.keys() == {0, 1}
    assert participants(2, 0.5, 0, 0) == participants(2, 0.5, 0, 1)  # so one starts from a trained model
    assert finish(run).server.row.item() == pytest.approx(w, rel=1e-12)
    assert run.state.slots["v"].flatten().tolist() == pytest.approx([personal[0], personal[1]], rel=1e-12)


def test_clipping_acts_on_the_loss_and_the_pull_together() -> None:
    """3 v^2 / 2 from 1, clipped at .5: 1 -> .95, where 3 * .95 - 50 * .05 = .35 is left alone -> .915. The global one: .95, .9."""
    run = quadratics(method("ditto", lam=50.0), [3.0], [0.0], 1.0, 0.1, 2, 1, local={"clip": 0.5})
    assert finish(run).state.slots["v"].item() == pytest.approx(0.915, abs=1e-6)
    assert run.server.row.item() == pytest.approx(0.9, abs=1e-6)


def test_the_global_model_is_fedavg_s_and_statistics_are_personal() -> None:
    """Bit for bit, whatever the personal branch does; its statistics are those of nobody else."""
    run = spec(local={"momentum": 0.9}, federation={"rounds": 2})
    ditto, fedavg = (
        finish(small(run, chosen, clients=2)) for chosen in (method("ditto", lam=1.0), method("fedavg"))
    )
    assert ditto.server.row.equal(fedavg.server.row)
    statistics = ditto.state.slots["v"][:, ditto.layout.B]
    assert not statistics[0].equal(statistics[1])
    assert all(not one.equal(ditto.server.row[ditto.layout.B]) for one in statistics)


def test_without_pull_it_is_local_training_bit_for_bit() -> None:
    run = spec(federation={"rounds": 2}, local={"optimizer_state": "persist", "momentum": 0.9})
    local = finish(small(run, method("local"), clients=2)).state.own
    assert finish(small(run, method("ditto", lam=0.0), clients=2)).state.slots["v"].equal(local)
    assert not finish(small(run, method("ditto", lam=1.0), clients=2)).state.slots["v"].equal(local)


def test_the_personal_model_is_evaluated_and_kept() -> None:
    run = finish(small(spec(federation={"rounds": 1}), method("ditto", lam=1.0), clients=2))
    samples, clients, _ = images(2)
    assert run.evaluator.reported == ("personal", "post_train")
    recorded = {
        (row["client"], row["metric"]): row["value"]
        for row in run.records.rows
        if (row["model"], row["stage"], row["split"], row["round"]) == ("personal", "post_train", "test", 1)
    }
    for k, v in enumerate(run.state.slots["v"]):
        (one,) = evaluate(
            run.worker.network("model"), v, samples, [(k, "test", clients[k].test)], run.worker.precision
        )
        assert recorded[k, "loss"] == pytest.approx(one.loss)
        assert recorded[k, "accuracy"] == one.accuracy
    assert run.evaluator.weights()["v"].equal(run.state.slots["v"])
