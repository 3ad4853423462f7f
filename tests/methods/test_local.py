"""Local training: who is evaluated with what. Its rounds: test_local_replay.py."""

from __future__ import annotations

from fedshift.testing.toys import finish, method, small, spec


def test_every_client_s_model_is_tested_on_the_unseen_domain() -> None:
    run = small(spec(federation={"rounds": 1}), method("local"), clients=2)
    finish(run)
    assert run.evaluator.reported == ("personal", "post_train")
    target = [row for row in run.records.rows if row["split"] == "target" and row["round"] == 1]
    assert {(row["member"], row["metric"]) for row in target} == {
        (k, metric) for k in (0, 1) for metric in ("accuracy", "loss")
    }
