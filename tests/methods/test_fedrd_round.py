"""FedRD: the order of its round, its limits, and what a user can get wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from fedshift.common.errors import FedshiftError
from fedshift.common.registry import get
from fedshift.federation.batches import participants
from fedshift.federation.evaluate import evaluate
from fedshift.federation.loop import Federation
from fedshift.federation.samples import pooled
from fedshift.methods import fedrd
from fedshift.testing.toys import FEW_SHOT, finish, images, method, recorded, small, spec, trained
from tests.tolerance import assert_rounded

OTHERS = ((0,), (1,), (1,))
NONE = ((), (), ())
RUN = spec(local={"epochs": 2, "lr": 0.05}, federation={"rounds": 2})
PROPORTIONAL = (
    (16, 8, 3),
    (6, 3, 3),
    (12, 6, 3),
)  # train, val, test: weights by train and val are those by train alone


def heads(federation: Federation, row: Tensor) -> Tensor:
    return federation.layout.named(row.contiguous())["head.weight"]


def shifted(federation: Federation, few_shot: tuple[tuple[int, ...], ...]) -> Federation:
    """With these few-shot labels of the clients."""
    for k, labels in enumerate(few_shot):
        federation.clients[k] = replace(federation.clients[k], few_shot=labels)
    return federation


def row_of(few_shot: tuple[tuple[int, ...], ...] = FEW_SHOT, **hp: Any) -> Tensor:
    return finish(shifted(small(RUN, method("fedrd", **hp)), few_shot)).server.row


# ---- lambda in the round


def test_lambda_starts_each_round_at_zero_and_is_measured_when_an_epoch_begins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    distances, alphas = (
        recorded(fedrd, "classifier_distance", monkeypatch),
        recorded(fedrd, "class_weights", monkeypatch),
    )
    federation = small(RUN, method("fedrd"))
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
    finish(small(RUN, method("fedrd", lambda_from="step")))
    assert len(distances) == 2 * 2 * (2 + 1 + 2)  # rounds, epochs, the clients' batches
    means = [distance[2].mean().item() for distance in distances[:4]]
    assert means[0] == 0 < min(means[1:])


def test_lambda_from_the_last_trained_classifier(monkeypatch: pytest.MonkeyPatch) -> None:
    distances = recorded(fedrd, "classifier_distance", monkeypatch)
    federation = small(RUN, method("fedrd", lambda_from="prev_round"))
    turns = trained(federation, monkeypatch)
    means = [distance[2].mean().item() for distance in distances]
    assert means[:6] == [0.0] * 6
    for k in range(3):
        last, received = heads(federation, turns[k][1]), heads(federation, turns[3 + k][0])
        expected = (received - last).norm(dim=1).mean().item()
        assert expected > 0
        assert means[6 + 2 * k : 8 + 2 * k] == pytest.approx([expected] * 2)


def test_debiasing_moves_the_model_and_depends_on_the_classes() -> None:
    plain = row_of(NONE)
    assert not row_of().equal(plain)
    assert not row_of().equal(row_of(OTHERS))
    assert row_of(debias=False).equal(plain)
    batch_mean = row_of(ce_norm="batch_mean")
    assert not batch_mean.equal(row_of())
    assert not batch_mean.equal(row_of(ce_norm="sum"))


def test_without_rare_classes_the_loss_is_plain_cross_entropy(monkeypatch: pytest.MonkeyPatch) -> None:
    losses = recorded(fedrd, "debiased_cross_entropy", monkeypatch)
    finish(shifted(small(RUN, method("fedrd")), NONE))
    assert not losses
    finish(shifted(small(RUN, method("fedrd")), (*NONE[:2], (1,))))
    assert len(losses) == 2 * 2 * 2  # client 2 alone: rounds, epochs, batches


@pytest.mark.parametrize("participation", [1.0, 0.67])
def test_the_classes_are_the_client_s_own_whoever_takes_part(
    participation: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    alphas = recorded(fedrd, "class_weights", monkeypatch)
    run = spec(federation={"rounds": 3, "participation": participation})
    federation = small(run, method("fedrd"))
    clients = [k for t in range(3) for k in participants(3, participation, 0, t)]
    finish(federation)
    told = [tuple(few.nonzero().flatten().tolist()) for few, *_ in alphas]
    assert told == [FEW_SHOT[k] for k in clients]


def test_a_pooled_client_has_the_rare_classes_of_all() -> None:
    _, clients, _ = images()
    assert pooled(clients)[0].few_shot == (0, 1)
    assert pooled(clients[:1])[0].few_shot == (1,)
    assert pooled([replace(one, few_shot=()) for one in clients])[0].few_shot == ()


# ---- the server in the round


def test_weights_come_from_this_round_s_base_and_from_validation_losses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """d: the indicator alone, from the row that was broadcast this round; the gap: validation losses, received minus trained."""
    calls = recorded(fedrd, "guided_weights", monkeypatch)
    federation = small(RUN, method("fedrd"))
    turns = trained(federation, monkeypatch)
    indicator = federation.layout.under("stages.stage1.conv.weight").at
    assert len(calls) == 2
    for t, (d, gap, uncounted, weights) in enumerate(calls):
        received, rows = turns[3 * t][0], torch.stack([row for _, row in turns[3 * t : 3 * t + 3]])
        assert uncounted == 0
        assert d.tolist() == pytest.approx((rows - received)[:, indicator].norm(dim=1).tolist())
        before = [validation_loss(federation, k, received) for k in range(3)]
        after = [validation_loss(federation, k, rows[k]) for k in range(3)]
        losses = torch.tensor([before, after], dtype=torch.float64)
        assert_rounded(gap, losses[0] - losses[1], losses)
        assert (losses[0] - losses[1]).abs().max() > 1e-3
        next_row = turns[3][0] if t == 0 else federation.server.row
        assert_rounded(next_row, weights @ rows, weights[:, None] * rows)
        assert weights.tolist() != pytest.approx([1 / 3] * 3, abs=1e-4)


@pytest.mark.parametrize("name", ["resnet18", "resnet50"])
def test_the_indicator_of_a_resnet_is_the_released_code_s(name: str) -> None:
    model = get("models", name)
    assert model.published(model.indicator) == "layer1.1.conv2.weight"


def validation_loss(federation: Federation, k: int, row: Tensor) -> float:
    worker = federation.worker
    sets = [(k, "val", federation.clients[k].val)]
    return evaluate(worker.network("model"), row.clone(), worker.samples, sets, worker.precision)[0].loss


def test_the_released_weights_shrink_the_model() -> None:
    run = spec(local={"lr": 0.0}, federation={"rounds": 1})
    made = finish(small(run, method("fedrd")))
    right = made.server.row[made.layout.W]  # equal at all clients; statistics move without a step
    shrunk = finish(small(run, method("fedrd", official_bug_n4=True))).server.row[made.layout.W]
    assert_rounded(shrunk, right * 5 / 6, right.expand(3, -1) / 3)


def test_without_guidance_clients_weigh_what_they_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Training and validation samples: 16 + 3, 6 + 5 and 14 + 4."""
    federation = small(spec(federation={"rounds": 1}), method("fedrd", guide=False))
    rows = torch.stack([row for _, row in trained(federation, monkeypatch)])
    parts = torch.tensor([19.0, 11.0, 18.0])[:, None] / 48 * rows
    assert_rounded(federation.server.row, parts.sum(0), parts)


# ---- limits


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_without_guidance_one_epoch_is_fedavg_bit_for_bit(precision: str) -> None:
    """Lambda is 0 in the first epoch: what makes Table 5's "w/o GGA" equal to Table 4's FedAvg at E = 1."""
    run = spec(local={"precision": precision, "momentum": 0.9}, federation={"rounds": 2})
    fedavg = finish(small(run, method("fedavg"), sizes=PROPORTIONAL)).server.row
    assert finish(small(run, method("fedrd", guide=False), sizes=PROPORTIONAL)).server.row.equal(fedavg)
    assert not finish(small(run, method("fedrd"), sizes=PROPORTIONAL)).server.row.equal(fedavg)


def test_without_both_parts_it_is_fedavg_bit_for_bit() -> None:
    run = spec(local={"epochs": 3, "clip": 1.0}, federation={"rounds": 2})
    fedavg = finish(small(run, method("fedavg"), sizes=PROPORTIONAL)).server.row
    assert finish(small(run, method("fedrd", guide=False, debias=False), sizes=PROPORTIONAL)).server.row.equal(fedavg)  # fmt: skip
    assert finish(
        shifted(small(run, method("fedrd", guide=False), sizes=PROPORTIONAL), NONE)
    ).server.row.equal(fedavg)
    assert not finish(small(run, method("fedrd", guide=False), sizes=PROPORTIONAL)).server.row.equal(fedavg)


def test_it_learns_and_shows_the_global_model() -> None:
    federation = finish(small(spec(local={"epochs": 2}, federation={"rounds": 3}), method("fedrd")))  # fmt: skip
    target = [row for row in federation.records.rows if row["split"] == "target" and row["metric"] == "accuracy"]  # fmt: skip
    assert target[-1]["model"] == "global" and target[-1]["value"] > 0.9
    assert federation.state.private.size == 0


# ---- what a user can get wrong


def test_no_validation_sample_is_an_error() -> None:
    federation = small(RUN, method("fedrd"))
    federation.clients[2].val.resize_(0)
    with pytest.raises(FedshiftError, match="client 2: it holds no val sample"):
        finish(federation)
