"""LG-FedAvg: only the last linear layer is exchanged. Its rounds: test_lgfedavg_replay.py."""

from __future__ import annotations

from fedshift.testing.toys import finish, method, small, spec

NUMBERS = 64 * 2 + 2  # F C + C: features to classes, and biases


def test_only_the_head_is_exchanged() -> None:
    federation = finish(small(spec(federation={"rounds": 2}), method("lgfedavg")))
    head = federation.layout.under("head")
    assert federation.state.shared.mask.equal(head.mask)
    cost = {(row["round"], row["metric"]): row["value"] for row in federation.records.rows if row["stage"] == "cost"}  # fmt: skip
    for t in (1, 2):
        assert cost[t, "bytes_down"] == cost[t, "bytes_up"] == 3 * NUMBERS * 4
    target = [row for row in federation.records.rows if row["split"] == "target" and row["round"] == 1]
    assert {row["member"] for row in target} == {0, 1, 2}
    assert federation.evaluator.reported == ("personal", "post_train")
