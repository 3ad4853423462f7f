"""Ditto: two rounds against the reference, and which model is evaluated. Its rounds: test_ditto_replay.py."""

from __future__ import annotations

import pytest

from fedshift.federation.evaluate import evaluate
from fedshift.testing.toys import finish, images, method, quadratics, small, spec
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
