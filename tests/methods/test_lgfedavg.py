"""LG-FedAvg: only the last linear layer is exchanged."""

from __future__ import annotations

import torch

from fedshift.testing.toys import finish, method, small, spec

NUMBERS = 64 * 2 + 2  # F C + C: features to classes, and biases


def test_only_the_head_is_exchanged() -> None:
    federation = finish(small(spec(federation={"rounds": 2}), method("lgfedavg")))
    head = federation.layout.under("head")
    assert federation.state.shared.size == NUMBERS
    assert federation.state.shared.mask.equal(head.mask)
    cost = {(row["round"], row["metric"]): row["value"] for row in federation.records.rows if row["stage"] == "cost"}  # fmt: skip
    for t in (1, 2):
        assert cost[t, "bytes_down"] == cost[t, "bytes_up"] == 3 * NUMBERS * 4


def test_bodies_stay_apart_and_are_trained() -> None:
    federation = small(spec(federation={"rounds": 2}), method("lgfedavg"))
    start = federation.state.own.clone()
    finish(federation)
    own = federation.state.own
    assert start[0].equal(start[1])
    assert not own.equal(start)
    assert not own[0].equal(own[1]) and not own[1].equal(own[2])
    statistics = federation.layout.kind("bn_statistic").mask[federation.state.local.mask]
    assert not own[0, statistics].equal(own[1, statistics])


def test_the_server_averages_heads_by_size() -> None:
    """One round in which nobody's body matters: the head is that of FedAvg, whose clients start alike."""
    run = spec(federation={"rounds": 1})
    federation, fedavg = (finish(small(run, method(name))) for name in ("lgfedavg", "fedavg"))
    head = federation.layout.under("head").at
    assert federation.server.row[head].equal(fedavg.server.row[head])


def test_alone_it_is_local_training() -> None:
    run = spec(local={"momentum": 0.9, "optimizer_state": "persist"}, federation={"rounds": 2})
    federation = finish(small(run, method("lgfedavg"), clients=1))
    local = finish(small(run, method("local"), clients=1))
    row = local.state.own[0]
    assert federation.state.own[0].equal(row[federation.state.local.at])
    assert federation.server.row[federation.state.shared.at].equal(row[federation.state.shared.at])


def test_every_client_is_tested_on_the_unseen_domain_with_the_shared_head() -> None:
    federation = finish(small(spec(federation={"rounds": 1}), method("lgfedavg")))
    rows = federation.method.unseen(federation.server)
    assert rows.shape == (3, federation.layout.size)
    assert rows[:, federation.state.local.at].equal(federation.state.own)
    head = rows[:, federation.state.shared.at]
    assert head.equal(federation.server.row[federation.state.shared.at].expand(3, -1))
    target = [row for row in federation.records.rows if row["split"] == "target" and row["round"] == 1]
    assert {row["member"] for row in target} == {0, 1, 2}


def test_tables_show_the_client_s_own_model_after_training() -> None:
    federation = finish(small(spec(federation={"rounds": 1}), method("lgfedavg")))
    assert federation.evaluator.reported == ("personal", "post_train")
    assert torch.isfinite(federation.state.own).all()
