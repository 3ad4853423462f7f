"""Ditto: two rounds against the reference, and which model is evaluated."""

import pytest

from fedshift.testing.toys import finish, method, quadratics, small, spec
from tests.methods import plain
from tests.reference import Reference


@pytest.mark.parity
def test_two_rounds_follow_the_reference() -> None:
    ref = Reference("fedavg_family_quadratic.json")
    place = [ref.given(name) for name in ("h", "c", "w0", "eta", "K")]
    for t in map(int, ref.keys("ditto")):
        run = finish(quadratics(method("ditto", lam=ref.given("ditto_lambda")), *place, rounds=t + 1))
        ref.equals(f"ditto.{t}.global_", run.server.row[0])
        ref.equals(f"ditto.{t}.personal", run.state.slots["v"].flatten())


def test_the_personal_model_is_evaluated_and_kept() -> None:
    """That the slot is what is tested: tests/evaluations/test_contract.py."""
    run = finish(small(spec(federation={"rounds": 1}), method("ditto"), clients=2))
    assert run.evaluator.reported == ("personal", "post_train")
    assert run.evaluator.weights()["v"].equal(run.state.slots["v"])


# Three rounds of Ditto, one of three unequal clients at rest, against the same rounds written out.
LOCAL = {"batch": 5, "lr": 0.05, "momentum": 0.9, "epochs": 2, "weight_decay": 1e-2, "clip": 1.0}
LAM = 0.7


@pytest.mark.parametrize("state", ["reset", "persist"])
@plain.doubles()
def test_three_rounds(state: str) -> None:
    """A personal model starts from the first that its client receives; its optimiser is its own."""
    run = spec(local={**LOCAL, "optimizer_state": state}, federation=plain.PARTIAL)
    f = plain.federation(run, method("ditto", lam=LAM))
    v: list[plain.Tensors | None] = [None for _ in plain.SIZES]
    momenta: list[plain.Tensors] = [{} for _ in plain.SIZES]
    common: list[plain.Tensors] = [{} for _ in plain.SIZES]

    def turn(G: plain.Tensors, k: int, t: int) -> plain.Tensors:
        if state == "reset":
            momenta[k], common[k] = {}, {}
        mine, P = plain.copied(v[k] or G), plain.copied(G)
        for _, x, y in plain.batches(f, k, t):
            plain.leaves(P)
            loss = plain.cross_entropy(plain.logits(P, x, True), y)
            plain.descend(P, loss, run.local.lr, common[k], run.local)
            plain.leaves(mine)
            loss = plain.cross_entropy(plain.logits(mine, x, True), y)
            pull = lambda name, w, g: g + LAM * (w - G[name])  # noqa: E731
            plain.descend(mine, loss, run.local.lr, momenta[k], run.local, before=pull)
        v[k] = plain.copied(mine)
        return plain.copied(P)

    assert plain.differs(f, plain.averaged(f, turn)) < 1e-9
    for k, mine in enumerate(v):
        assert mine is not None
        assert plain.far(plain.named(f, f.state.slots["v"][k]), mine) < 1e-9
