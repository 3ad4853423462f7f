"""FedRD: the order of its round, its limits, and what a user can get wrong."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from fedshift.errors import FedshiftError
from fedshift.federation.evaluate import evaluate
from fedshift.federation.loop import Federation
from fedshift.methods import fedrd
from tests.federation.toys import finish, method, recorded, small, spec, trained

FEW = {"domain0": (1,), "domain1": (0,), "domain2": (0, 1)}
OTHERS = {"domain0": (0,), "domain1": (1,), "domain2": (1,)}
RUN = spec(local={"epochs": 2, "lr": 0.05}, federation={"rounds": 2})


def heads(federation: Federation, row: Tensor) -> Tensor:
    return federation.layout.named(row.contiguous())["head.weight"]


def row_of(**hp: Any) -> Tensor:
    return finish(small(RUN, method("fedrd", **hp))).server.row


# ---- lambda in the round


def test_lambda_starts_each_round_at_zero_and_is_measured_when_an_epoch_begins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    distances, alphas = (
        recorded(fedrd, "classifier_distance", monkeypatch),
        recorded(fedrd, "class_weights", monkeypatch),
    )
    federation = small(RUN, method("fedrd", few_shot=FEW))
    turns = trained(federation, monkeypatch)
    assert len(distances) == 2 * 3 * 2  # rounds, clients, epochs
    for i, (received, row) in enumerate(turns):
        (W_g, W_i, first), (again, later, second) = distances[2 * i : 2 * i + 2]
        assert first.tolist() == [0.0, 0.0]
        assert W_g.equal(W_i) and W_g.equal(again) and W_g.equal(heads(federation, received))
        assert second.min() > 0
        assert alphas[2 * i + 1][1].equal(second.mean())
        assert not later.equal(heads(federation, row))
    few = [alpha[0].tolist() for alpha in alphas[:6:2]]
    assert few == [[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]
    assert alphas[1][2][1] > 1 and alphas[1][2][0] == 1


def test_lambda_before_each_step(monkeypatch: pytest.MonkeyPatch) -> None:
    distances = recorded(fedrd, "classifier_distance", monkeypatch)
    finish(small(RUN, method("fedrd", few_shot=FEW, lambda_from="step")))
    assert len(distances) == 2 * 3 * 2 * 2  # 12 training images are two batches
    means = [distance[2].mean().item() for distance in distances[:4]]
    assert means[0] == 0 < min(means[1:])


def test_lambda_from_the_last_trained_classifier(monkeypatch: pytest.MonkeyPatch) -> None:
    distances = recorded(fedrd, "classifier_distance", monkeypatch)
    federation = small(RUN, method("fedrd", few_shot=FEW, lambda_from="prev_round"))
    turns = trained(federation, monkeypatch)
    means = [distance[2].mean().item() for distance in distances]
    assert means[:6] == [0.0] * 6
    for k in range(3):
        last, received = heads(federation, turns[k][1]), heads(federation, turns[3 + k][0])
        expected = (received - last).norm(dim=1).mean().item()
        assert expected > 0
        assert means[6 + 2 * k : 8 + 2 * k] == pytest.approx([expected] * 2)


def test_debiasing_moves_the_model_and_depends_on_the_classes() -> None:
    plain = row_of()
    assert not row_of(few_shot=FEW).equal(plain)
    assert not row_of(few_shot=FEW).equal(row_of(few_shot=OTHERS))
    assert row_of(few_shot={"*": ()}).equal(plain)
    assert row_of(few_shot=FEW, debias=False).equal(plain)
    batch_mean = row_of(few_shot=FEW, ce_norm="batch_mean")
    assert not batch_mean.equal(row_of(few_shot=FEW))
    assert not batch_mean.equal(row_of(few_shot=FEW, ce_norm="sum"))


# ---- the server in the round


def test_weights_come_from_this_round_s_base_and_from_validation_losses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """d: the indicator alone, from the row that was broadcast this round; the gap: validation losses, received minus trained."""
    calls = recorded(fedrd, "guided_weights", monkeypatch)
    federation = small(RUN, method("fedrd", few_shot=FEW))
    turns = trained(federation, monkeypatch)
    indicator = federation.layout.under("stages.stage1.conv.weight").at
    assert len(calls) == 2
    for t, (d, gap, uncounted, weights) in enumerate(calls):
        received, rows = turns[3 * t][0], torch.stack([row for _, row in turns[3 * t : 3 * t + 3]])
        assert uncounted == 0
        assert d.tolist() == pytest.approx((rows - received)[:, indicator].norm(dim=1).tolist())
        before = [validation_loss(federation, k, received) for k in range(3)]
        after = [validation_loss(federation, k, rows[k]) for k in range(3)]
        expected = [one - other for one, other in zip(before, after, strict=True)]
        assert gap.tolist() == pytest.approx(expected, abs=1e-6)
        assert max(map(abs, expected)) > 1e-3
        next_row = turns[3][0] if t == 0 else federation.server.row
        assert next_row.tolist() == pytest.approx((weights @ rows).tolist(), abs=1e-6)
        assert weights.tolist() != pytest.approx([1 / 3] * 3, abs=1e-4)


def validation_loss(federation: Federation, k: int, row: Tensor) -> float:
    turn = federation.turn
    sets = [(k, "val", federation.clients[k].val)]
    return evaluate(turn.network("first"), row.clone(), turn.samples, sets, turn.precision)[0].loss


def test_the_released_weights_shrink_the_model() -> None:
    run = spec(local={"lr": 0.0}, federation={"rounds": 1})
    right = finish(small(run, method("fedrd"))).server.row
    shrunk = finish(small(run, method("fedrd", official_bug_n4=True))).server.row
    assert shrunk.tolist() == pytest.approx((right * 5 / 6).tolist(), abs=1e-6)


def test_without_guidance_clients_weigh_what_they_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Training and validation samples, 12 + 4 each but for one client of which we take three validation samples away."""
    federation = small(spec(federation={"rounds": 1}), method("fedrd", guide=False))
    federation.clients[1].val.resize_(1)
    rows = torch.stack([row for _, row in trained(federation, monkeypatch)])
    expected = torch.tensor([16.0, 13.0, 16.0]) / 45 @ rows
    assert federation.server.row.tolist() == pytest.approx(expected.tolist(), abs=1e-6)


# ---- limits


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_without_guidance_one_epoch_is_fedavg_bit_for_bit(precision: str) -> None:
    """Lambda is 0 in the first epoch: what makes Table 5's "w/o GGA" equal to Table 4's FedAvg at E = 1."""
    run = spec(local={"precision": precision, "momentum": 0.9}, federation={"rounds": 2})
    fedavg = finish(small(run, method("fedavg"))).server.row
    assert finish(small(run, method("fedrd", few_shot=FEW, guide=False))).server.row.equal(fedavg)
    assert not finish(small(run, method("fedrd", few_shot=FEW))).server.row.equal(fedavg)


def test_without_both_parts_it_is_fedavg_bit_for_bit() -> None:
    run = spec(local={"epochs": 3, "clip": 1.0}, federation={"rounds": 2})
    fedavg = finish(small(run, method("fedavg"))).server.row
    assert finish(small(run, method("fedrd", few_shot=FEW, guide=False, debias=False))).server.row.equal(fedavg)  # fmt: skip
    assert finish(small(run, method("fedrd", guide=False))).server.row.equal(fedavg)
    assert not finish(small(run, method("fedrd", few_shot=FEW, guide=False))).server.row.equal(fedavg)


def test_it_learns_and_shows_the_global_model() -> None:
    federation = finish(small(spec(local={"epochs": 2}, federation={"rounds": 3}), method("fedrd", few_shot=FEW)))  # fmt: skip
    target = [row for row in federation.records.rows if row["split"] == "target" and row["metric"] == "accuracy"]  # fmt: skip
    assert target[-1]["model"] == "global" and target[-1]["value"] > 0.9
    assert federation.state.kept.size == 0


# ---- what a user can get wrong


def test_a_domain_without_classes_is_named() -> None:
    with pytest.raises(FedshiftError, match=r"no classes for domain 'domain1'\n.*'domain10'"):
        finish(small(RUN, method("fedrd", few_shot={"domain0": (1,), "domain10": (0,)})))


def test_a_class_that_does_not_exist_is_named() -> None:
    with pytest.raises(FedshiftError, match=r"\[2\] are not all classes\n.*0 to 1"):
        finish(small(RUN, method("fedrd", few_shot={"*": (2,)})))


def test_no_validation_sample_is_an_error() -> None:
    federation = small(RUN, method("fedrd"))
    federation.clients[2].val.resize_(0)
    with pytest.raises(FedshiftError, match="client 2: it holds no val sample"):
        finish(federation)
