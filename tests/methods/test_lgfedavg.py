"""LG-FedAvg: only the last linear layer is exchanged."""

from __future__ import annotations

from fedshift.testing.toys import finish, method, small, spec
from tests.methods import plain

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


# Three rounds of LG-FedAvg, one of three unequal clients at rest, against the same rounds written out.
LOCAL = {"batch": 5, "lr": 0.05, "epochs": 2, "weight_decay": 1e-2, "clip": 1.0}


@plain.doubles()
def test_three_rounds() -> None:
    f = plain.federation(spec(local=LOCAL, federation=plain.PARTIAL), method("lgfedavg"))
    G = plain.named(f, f.state.row)
    own = [G for _ in plain.SIZES]
    shared = ("head.weight", "head.bias")
    for t in range(plain.PARTIAL["rounds"]):
        chosen = plain.active(f, t)
        for k in chosen:
            own[k] = plain.trained(f, own[k] | {name: G[name] for name in shared}, k, t)
        G = plain.average([own[k] for k in chosen], plain.by_size(chosen))
    finish(f)
    expected = [mine | {name: G[name] for name in shared} for mine in own]
    for row, model in zip(f.method.unseen(f.server), expected, strict=True):
        assert plain.far(plain.named(f, row), model) < 1e-9
