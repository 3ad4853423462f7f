"""FedBN: batch normalisation stays with its client, its statistics follow the reference, an unseen domain gets the mean."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from fedshift.federation.batches import schedule
from fedshift.federation.layout import Layout
from fedshift.federation.loop import Federation
from fedshift.federation.samples import ClientData, Samples
from fedshift.models.base import Model
from fedshift.testing.toys import Normed, Untouched, finish, method, quadratics, small, spec, trained
from tests.reference import Reference
from tests.tolerance import assert_rounded


class Misnamed(Model):
    """Layers whose names say the wrong thing."""

    name = "misnamed"

    def __init__(self) -> None:
        super().__init__(2, 1)
        self.bn1 = nn.Linear(2, 2)
        self.norm = nn.LayerNorm(2)
        self.shortcut = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))


@pytest.mark.parity
def test_statistics_follow_the_reference() -> None:
    """One local epoch of two batches moves a client's own statistics: r <- .9 r + .1 m, with the unbiased variance."""
    ref = Reference("bn_adaptation.json")
    values, nobody = ref.given("batches"), torch.empty(0, dtype=torch.int64)
    run = spec(local={"batch": 4, "lr": 0.0}, federation={"rounds": 1})
    order = schedule(8, run.local, run.seed, 0, 0, batch_norm=True).order
    index = order.argsort()  # so that the drawn order shows the batches as the reference has them
    samples = Samples(values.flatten(0, 1), torch.zeros(8, dtype=torch.int64), Untouched(), lambda x: x)
    made = Federation(run, method("fedbn"), Normed, samples, [ClientData(index, nobody, nobody)], nobody)
    finish(made)
    own = dict(zip(("weight", "bias", "mean", "var"), made.state.own[0].split(2), strict=True))
    ref.equals("momentum", made.worker.network("model").model.norm.momentum)
    ref.equals("running_mean_after_1_epoch", own["mean"])
    ref.equals("running_var_after_1_epoch", own["var"])


def test_batch_normalisation_is_found_by_type() -> None:
    layout = Layout(Misnamed())
    kept = method("fedbn").local(layout).mask
    assert {entry.name for entry in layout.entries if kept[entry.slice].any()} == {
        f"shortcut.1.{name}" for name in ("weight", "bias", "running_mean", "running_var")
    }
    assert kept.sum() == 12


def test_what_stays_and_what_is_averaged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients of 16 and 6 images: each goes on with its own normalisation, everything else is the average by size."""
    run = small(spec(federation={"rounds": 2}), method("fedbn"), clients=2)
    first, second = (turns for turns in zip(*[iter(trained(run, monkeypatch))] * 2, strict=True))
    affine, statistics = (run.layout.kind(kind) for kind in ("bn_affine", "bn_statistic"))
    shared = (~(affine | statistics)).at
    average = (16 * first[0][1] + 6 * first[1][1])[shared] / 22
    for (_, before), (received, after) in zip(first, second, strict=True):
        for kept in (affine.at, statistics.at):
            assert received[kept].equal(before[kept])
            assert not after[kept].equal(before[kept])
        assert_rounded(received[shared], average, torch.stack([first[0][1], first[1][1]])[:, shared])
    for kept in (affine.at, statistics.at):
        assert not second[0][1][kept].equal(second[1][1][kept])
    assert run.evaluator.reported == ("personal", "post_train")


def test_who_is_away_keeps_its_normalisation() -> None:
    run = small(spec(federation={"rounds": 1, "participation": 0.5}), method("fedbn"), clients=2)
    start = run.state.own.clone()
    own = finish(run).state.own
    trained_one = run.state.visits.index(1)
    assert not own[trained_one].equal(start[trained_one])
    assert own[1 - trained_one].equal(start[1 - trained_one])


def test_without_batch_normalisation_it_is_fedavg_bit_for_bit() -> None:
    run, fedavg = (
        finish(quadratics(method(name), [1.0, 2.0], [0.0, 3.0], 1.0, 0.1, 3, 2, sizes=[3, 1]))
        for name in ("fedbn", "fedavg")
    )
    assert run.server.row.equal(fedavg.server.row)
    assert run.server.row.item() == pytest.approx(1.0682460625)


def test_an_unseen_domain_gets_the_plain_mean() -> None:
    """Normalisation of 1, 2 and 6 throughout gives 3, whoever holds how many images; the rest is the server's."""
    run = small(spec(), method("fedbn"))
    run.state.own.copy_(torch.tensor([[1.0], [2.0], [6.0]]).expand_as(run.state.own))
    (row,) = run.method.unseen(run.server)
    kept = run.layout.kind("bn_affine", "bn_statistic")
    assert row[kept.at].eq(3).all()
    assert row[(~kept).at].equal(run.server.row[(~kept).at])
    assert run.server.peeked == 3 * kept.size


def test_an_unseen_domain_gets_nothing_of_clients_that_never_trained() -> None:
    """One of three clients a round: the mean is over those that have been drawn so far, whoever trained last."""
    run = small(spec(federation={"rounds": 3, "participation": 0.34}), method("fedbn"))
    for _ in run.run():
        drawn = [k for k, visits in enumerate(run.state.visits) if visits]
        (row,) = run.method.unseen(run.server)
        torch.testing.assert_close(row[run.state.private.at], run.state.own[drawn].mean(0))
    assert len(drawn) == 2
