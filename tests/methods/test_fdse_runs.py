"""FDSE: parts switched off, its limits, and whole runs."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import torch

from fedshift.common.registry import get
from fedshift.federation.loop import Federation
from fedshift.testing.toys import finish, images, method, small, spec
from tests.methods.fdse_toys import RUN, spied
from tests.tolerance import assert_rounded


def test_without_consensus_the_server_averages_by_size(monkeypatch: pytest.MonkeyPatch) -> None:
    one = spied(small(RUN, method("fdse", consensus="none")), monkeypatch)[0]
    federation = small(RUN, method("fdse"))
    at = (federation.state.shared & federation.layout.trainable).at
    expected = (one["p"][:, None] * one["rows"][:, at]).sum(0)
    torch.testing.assert_close(one["row"][at], expected)


def test_without_similarity_nobodys_tensors_change_on_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    at = small(RUN, method("fdse")).state.personal.at
    for one in spied(small(RUN, method("fdse", similarity="none")), monkeypatch):
        assert one["mixed"][:, at].equal(one["rows"][:, at])
    with monkeypatch.context() as patch:
        one = spied(small(RUN, method("fdse", similarity="mean")), patch)[0]
        torch.testing.assert_close(one["mixed"][2, at], one["rows"][:, at].mean(0))
    near = finish(small(RUN, method("fdse", similarity="module", tau=1e-7)))
    alone = finish(small(RUN, method("fdse", similarity="none")))
    torch.testing.assert_close(near.state.own, alone.state.own, rtol=1e-4, atol=1e-5)


def test_all_switched_off_is_fedavg_of_the_decomposed_network() -> None:
    """Bit for bit, since BN_DSE's statistics, which stay local, do not enter training; of equal weights, as personal tensors have them."""
    off = method("fdse", consensus="none", similarity="mean", consistency="none")
    run = spec(local={"batch": 8, "lr": 0.1}, federation={"rounds": 2, "weights": "uniform"})
    samples, held, target = images(3)

    def build() -> Any:
        return method("fdse").model(get("models", "digits_cnn")(2, 32))

    fedavg = finish(Federation(run, method("fedavg"), build, samples, held, target)).state.row
    state = finish(small(run, off)).state
    assert state.row[state.shared.at].equal(fedavg[state.shared.at])
    assert state.own[:, state.personal.mask[state.private.mask]].equal(
        fedavg[state.personal.at].expand(3, -1)
    )


def test_one_client_and_twins(monkeypatch: pytest.MonkeyPatch) -> None:
    """One client: the new global tensors are its own, but for rounding. Twins, whose batches differ in order alone: as one."""
    one = spied(small(spec(federation={"rounds": 1}), method("fdse"), clients=1), monkeypatch)[0]
    federation = small(RUN, method("fdse"))
    shared, personal = federation.state.shared.at, federation.state.personal.at
    row, only = one["row"][shared], one["rows"][:, shared]
    assert_rounded(row, only[0], torch.cat([one["base"][None, shared], only]))
    torch.testing.assert_close(one["mixed"][0, personal], one["rows"][0, personal], rtol=0, atol=0)
    samples, held, target = images(1)
    run = spec(federation={"rounds": 1}, local={"batch": 50})
    twins, alone = (
        finish(
            Federation(
                run, method("fdse"), lambda: get("models", "digits_cnn")(2, 32), samples, clients, target
            )
        )
        for clients in (held * 2, held)
    )
    moved = (alone.state.row - federation.state.row)[shared].norm()
    assert (twins.state.row - alone.state.row)[shared].norm() < 0.01 * moved


def test_no_update_and_no_training_leave_everything_as_it_was() -> None:
    start = small(RUN, method("fdse"))
    stopped = finish(small(spec(local={"lr": 0.0}, federation={"rounds": 2}), method("fdse")))
    trainable = (start.state.shared & start.layout.trainable).at
    assert stopped.state.row[trainable].equal(start.state.row[trainable])
    assert stopped.state.own.isfinite().all()


def test_partial_participation() -> None:
    run = spec(federation={"rounds": 3, "participation": 0.67})
    federation = finish(small(run, method("fdse")))
    assert federation.state.row.isfinite().all() and federation.state.own.isfinite().all()


@pytest.mark.parametrize("hp", [
    {"consensus": "tensor", "similarity": "tensor", "consistency": "code_v1", "padding": "v1"},
    {"consensus": "tensor", "similarity": "tensor", "consistency": "code_head", "activation": "none", "fc_identity": True, "concat_bias": "shared"},
    {"G": 4, "dw": 1, "concat_bias": "none"},
])  # fmt: skip
def test_other_readings_train(hp: dict[str, Any]) -> None:
    run = spec(local={"precision": "bf16", "clip": 10.0}, federation={"rounds": 3})
    federation = finish(small(run, method("fdse", **hp)))
    assert federation.state.row.isfinite().all() and federation.state.own.isfinite().all()


def test_unseen_domain() -> None:
    """Means over the clients of what they have after the round: personal tensors as mixed, statistics as they left them; or the start."""
    federation = finish(small(RUN, method("fdse")))
    start = small(RUN, method("fdse")).state.row
    state, row = federation.state, federation.method.unseen(federation.server)[0]
    assert row[state.shared.at].equal(state.row[state.shared.at])
    torch.testing.assert_close(row[state.private.at], state.own.mean(0))
    assert not row[state.private.at].equal(start[state.private.at])
    first = small(RUN, method("fdse", unseen_dse="init"))
    kept = finish(first).method.unseen(first.server)[0][state.private.at]
    assert kept.equal(start[state.private.at])


def test_asking_for_the_unseen_model_changes_nothing_on_the_server() -> None:
    federation = finish(small(RUN, method("fdse", unseen_dse="mean")))
    before = federation.server.row.clone()
    unseen = federation.method.unseen(federation.server)[0]
    assert not unseen.equal(before)
    assert federation.server.row.equal(before)


def test_an_unseen_domain_gets_nothing_of_clients_that_never_trained() -> None:
    """One of three clients a round."""
    federation = finish(small(spec(federation={"rounds": 3, "participation": 0.34}), method("fdse")))
    state, (row,) = federation.state, federation.method.unseen(federation.server)
    drawn = [k for k, visits in enumerate(state.visits) if visits]
    assert len(drawn) == 2
    torch.testing.assert_close(row[state.private.at], state.own[drawn].mean(0))


def test_it_learns_two_brightnesses() -> None:
    federation = finish(small(spec(local={"epochs": 2}, federation={"rounds": 12}), method("fdse")))
    last = [row["value"] for row in federation.records.rows
            if (row["round"], row["stage"], row["metric"], row["split"]) == (12, "post_train", "accuracy", "test")]  # fmt: skip
    assert len(last) == 3 and sum(last) / 3 >= 0.75


def test_only_this_method_loads_scipy() -> None:
    code = "import sys; from fedshift.testing.toys import *; finish(small(spec(), method('fedavg'))); assert 'scipy' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
