"""What methods record, against the equations written out and against what the server did with it."""

import math
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from fedshift.federation.client import Client
from fedshift.federation.evaluate import evaluate
from fedshift.federation.server import Server
from fedshift.methods.fedrd import FedRD
from fedshift.methods.hfedf import HFedF
from fedshift.methods.hfedf.hypernet import generate
from fedshift.methods.stablefdg import styles
from fedshift.testing.toys import diagnosed, finish, method, recorded, small, spec, trained

RUN = spec(local={"epochs": 2, "lr": 0.05}, federation={"rounds": 3, "participation": 0.67})
N = 3


@dataclass
class Aggregated:
    """One aggregation: the row that was sent, what came back, and what was made of both."""

    active: list[int]
    base: Tensor
    rows: Tensor
    row: Tensor
    mixed: Tensor


def played(name: str, monkeypatch: pytest.MonkeyPatch, **hp: Any) -> tuple[list[Aggregated], Any, Any]:
    """The aggregations of a run of two of three clients a round, what it recorded, and the run."""
    federation, seen = small(RUN, method(name, **hp)), list[Aggregated]()
    aggregate = type(federation.method).aggregate

    def spy(self: Any, S: Server, rows: Tensor, *rest: Any) -> None:
        base, before = S.row.clone(), rows.clone()
        aggregate(self, S, rows, *rest)
        seen.append(Aggregated([*S.active], base, before, S.row.clone(), rows.clone()))

    with monkeypatch.context() as patch:
        patch.setattr(type(federation.method), "aggregate", spy)
        finish(federation)
    assert [len(one.active) for one in seen] == [2, 2, 2]
    return seen, diagnosed(federation), federation


def of(found: Any, name: str, t: int, active: list[int]) -> Tensor:
    return torch.tensor([found[name, t, k][0] for k in active])


def average(rows: Tensor, weights: Tensor) -> Tensor:
    return (weights[:, None].double() * rows.double()).sum(0).float()


@pytest.mark.parametrize("name", ["feddg_ga", "fedrd", "fedheal"])
def test_recorded_weights_are_those_of_the_average(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With FedHEAL's tau below 0 no coordinate is masked."""
    seen, found, _ = played(name, monkeypatch, **({"tau": -1.0} if name == "fedheal" else {}))
    for t, one in enumerate(seen, start=1):
        weights = of(found, "weights", t, one.active)
        torch.testing.assert_close(one.row, average(one.rows, weights), rtol=1e-5, atol=1e-6)
    assert (weights[0] - weights[1]).abs() > 0.005  # no plain mean


def test_fedrds_gaps_and_distances(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eq. 3 from losses measured anew, d of the indicator alone."""
    seen, found, federation = played("fedrd", monkeypatch)
    at, worker = federation.layout.under("stages.stage1.conv.weight").at, federation.worker

    def loss_of(k: int, row: Tensor) -> float:
        sets = [(k, "val", federation.clients[k].val)]
        return evaluate(worker.network("model"), row.clone(), worker.samples, sets, worker.precision)[0].loss

    for t, one in enumerate(seen, start=1):
        gaps = [loss_of(k, one.base) - loss_of(k, row) for k, row in zip(one.active, one.rows, strict=True)]
        assert of(found, "gap", t, one.active).tolist() == pytest.approx(gaps, abs=1e-5)
        far = [(row[at] - one.base[at]).square().sum().sqrt().item() for row in one.rows]
        assert of(found, "distance", t, one.active).tolist() == pytest.approx(far, rel=1e-4)


def test_fedrds_lambda_is_that_of_the_last_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    starts: dict[tuple[int, int], Tensor] = {}
    loss = FedRD.loss

    def spy(self: FedRD, C: Client, x: Tensor, y: Tensor) -> Tensor:
        W = lambda row: C.layout.named(row)["head.weight"]  # noqa: E731
        if C.new_epoch:
            starts[C.t + 1, C.k] = W(C.received) - W(C.row)
        return loss(self, C, x, y)

    monkeypatch.setattr(FedRD, "loss", spy)
    found = diagnosed(finish(small(RUN, method("fedrd"))))
    told = {(t, k): values[0] for (name, t, k), values in found.items() if name == "lambda"}
    assert told.keys() == starts.keys()
    for place, moved in starts.items():
        assert told[place] == pytest.approx(moved.square().sum(1).sqrt().mean().item(), rel=1e-5)


def test_hfedfs_alignment_weights_and_embeddings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eq. 8 and 9 from whole gradients, by autograd through the generated models."""
    gradients, embeddings = list[list[Tensor]](), list[Tensor]()
    aggregate = HFedF.aggregate

    def spy(self: HFedF, S: Server, rows: Tensor, *rest: Any) -> None:
        net, h, W = self.net(S.layout, S.N), S.slot.h.clone().requires_grad_(), S.layout.W
        models = [generate(net, h, k) for k in S.active]
        pairs = [(model, (model - row[W]).detach()) for model, row in zip(models, rows, strict=True)]
        gradients.append([torch.autograd.grad(model, h, away)[0].double() for model, away in pairs])
        aggregate(self, S, rows, *rest)
        embeddings.append(net.embeddings(S.slot.h).clone())

    monkeypatch.setattr(HFedF, "aggregate", spy)
    seen, found, _ = played("hfedf", monkeypatch)
    for t, (one, g, nu) in enumerate(zip(seen, gradients, embeddings, strict=True), start=1):
        mean = (g[0] + g[1]) / 2
        gamma = [torch.cosine_similarity(single, mean, 0).item() for single in g]
        assert of(found, "alignment", t, one.active).tolist() == pytest.approx(gamma, abs=1e-4)
        weights = [math.exp(value) / sum(map(math.exp, gamma)) for value in gamma]
        assert of(found, "gradalign", t, one.active).tolist() == pytest.approx(weights, abs=1e-4)
        for k in range(N):  # Adam moves those of clients that are away, too
            assert found["embeddings", t, k] == dict(enumerate(nu[k].tolist()))


def test_fdses_factors_and_similarities(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server's step is the sum of factors times updates; what clients get next, of weights times what came; rows of Eq. 9 by hand."""
    seen, found, federation = played("fdse", monkeypatch, tau=0.3)
    L, state = federation.layout, federation.state
    blocks = [f"stages.stage{i}.conv" for i in (1, 2, 3, 4)]
    for t, one in enumerate(seen, start=1):
        for unit, name in enumerate([*blocks, "head"]):
            at = (L.under(name) & state.shared & L.trainable).at
            factors = torch.tensor([found["consensus", t, k][unit] for k in one.active])
            updates = one.rows[:, at] - one.base[at]
            torch.testing.assert_close(
                one.row[at] - one.base[at], average(updates, factors), rtol=1e-4, atol=1e-6
            )
        for unit, name in enumerate(blocks):
            at = (L.under(name) & state.personal).at
            values = one.rows[:, at].double()
            for place, k in enumerate(one.active):
                similar = [torch.cosine_similarity(values[place], other, 0).item() / 0.3 for other in values]
                expected = [math.exp(value) / sum(map(math.exp, similar)) for value in similar]
                weights = [found["similarity", t, k][N * unit + j] for j in one.active]
                assert weights == pytest.approx(expected, abs=1e-5)
                mixed = average(one.rows[:, at], torch.tensor(weights))
                torch.testing.assert_close(one.mixed[place, at], mixed, rtol=1e-4, atol=1e-6)


def test_stablefdgs_styles_are_the_moments_of_the_samples_styles(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = recorded(styles, "information", monkeypatch)
    monkeypatch.setattr("fedshift.methods.stablefdg.information", styles.information)
    federation = small(RUN, method("stablefdg"))
    turns = trained(federation, monkeypatch)
    found = diagnosed(federation)
    places = sorted((t, k) for name, t, k in found)
    assert len(calls) == len(turns) == len(places) == 6
    for (taken, *_), place in zip(calls, places, strict=True):
        parts = [taken.mu.mean(0), taken.sigma.mean(0)]
        parts += [((part - part.mean(0)) ** 2).mean(0) for part in taken]
        told = torch.tensor([value for _, value in sorted(found["style", *place].items())])
        torch.testing.assert_close(told, torch.cat(parts), rtol=1e-4, atol=1e-7)
