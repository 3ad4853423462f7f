"""FedIIR: the written-out gradient against autograd, the order of its round, its limits."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fedshift.federation.client import Client
from fedshift.methods import fediir
from fedshift.methods.fediir import alignment, head_gradient, moving_average
from fedshift.testing.toys import finish, method, small, spec


def test_the_head_gradient_is_autograds_and_so_is_its_derivative() -> None:
    torch.manual_seed(0)
    body, head = nn.Linear(5, 4), nn.Linear(4, 3)
    x, y, target = torch.randn(7, 5), torch.randint(0, 3, (7,)), torch.randn(15)
    z = body(x)
    loss = F.cross_entropy(head(z), y)
    reference = torch.cat(
        [g.flatten() for g in torch.autograd.grad(loss, list(head.parameters()), create_graph=True)]
    )
    z2 = body(x)
    ours = head_gradient(z2, head(z2), y)
    assert ours.tolist() == pytest.approx(reference.tolist(), abs=1e-6)
    both = [*body.parameters(), *head.parameters()]
    second = torch.autograd.grad((reference - target).square().sum(), both)
    written = torch.autograd.grad(alignment(ours, target), both)
    for one, other in zip(written, second, strict=True):
        assert one.flatten().tolist() == pytest.approx(other.flatten().tolist(), abs=1e-5)
        assert one.norm() > 0


def test_the_head_gradient_keeps_double_precision() -> None:
    rng = torch.Generator().manual_seed(1)
    z, weight, bias = (
        torch.randn(*shape, dtype=torch.float64, generator=rng) for shape in ((7, 4), (3, 4), (3,))
    )
    y = torch.randint(0, 2, (7,), generator=rng)  # nobody of the last class
    weight, bias = weight.requires_grad_(), bias.requires_grad_()
    logits = F.linear(z, weight, bias)
    reference = torch.cat(
        [g.flatten() for g in torch.autograd.grad(F.cross_entropy(logits, y), (weight, bias))]
    )
    ours = head_gradient(z, logits.detach(), y)
    assert (ours - reference).abs().max() < 1e-14
    half = head_gradient(z.bfloat16(), logits.detach().bfloat16(), y)
    assert half.dtype == torch.float32
    assert half.tolist() == pytest.approx(reference.tolist(), abs=0.02)


def test_moving_average() -> None:
    assert moving_average(torch.tensor([2.0]), torch.tensor([10.0]), 0.95).item() == pytest.approx(2.4)


def test_the_mean_gradient_is_over_all_samples_of_all_clients() -> None:
    """Against one pass over everybody's training samples with the received model in eval mode."""
    federation = small(spec(federation={"rounds": 1}), method("fediir", ema=0.0))
    start, samples = federation.state.row.clone(), federation.worker.samples
    everybody = torch.cat([client.train for client in federation.clients])
    network = federation.worker.network("model").bind(start)
    network.model.eval()
    pixels, y = samples.take(everybody)
    with torch.no_grad():
        out = network.model(samples.evaluate(pixels))
    expected = head_gradient(out.feature, out.logits, y)
    finish(federation)
    assert federation.server.slot.G.tolist() == pytest.approx(expected.tolist(), abs=1e-6)
    assert expected.norm() > 1e-3


def test_the_clients_train_with_this_rounds_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Tensor] = []
    plain = fediir.alignment

    def spy(gradient: Tensor, mean_gradient: Tensor) -> Tensor:
        seen.append(mean_gradient.clone())
        assert gradient.requires_grad
        return plain(gradient, mean_gradient)

    monkeypatch.setattr(fediir, "alignment", spy)
    federation = small(spec(federation={"rounds": 2}), method("fediir"))
    finish(federation)
    half = len(seen) // 2
    assert all(one.equal(seen[0]) for one in seen[:half])
    assert seen[-1].equal(federation.server.slot.G)
    assert seen[0].norm() > 0
    assert not seen[0].equal(seen[-1])
    assert seen[0].norm() < 0.2 * (
        seen[-1].norm() / (1 - 0.95**2)
    )  # a twentieth of the first gradient: G starts at zero


def test_without_penalty_it_is_uniform_fedavg() -> None:
    run = spec(federation={"rounds": 2, "weights": "uniform"}, local={"clip": 1.0})
    fedavg = finish(small(run, method("fedavg"))).server.row
    assert finish(small(run, method("fediir", pen=0.0))).server.row.equal(fedavg)
    assert not finish(small(run, method("fediir", pen=1.0))).server.row.equal(fedavg)


def test_it_costs_one_gradient_each_way() -> None:
    federation = finish(small(spec(federation={"rounds": 1}), method("fediir")))
    cost = {row["metric"]: row["value"] for row in federation.records.rows if row["stage"] == "cost"}
    head = 2 * 64 + 2
    assert cost["bytes_down"] == 3 * 4 * (federation.layout.size + head)
    assert cost["bytes_up"] == 3 * 4 * (federation.layout.size + head + 1)


def test_measuring_leaves_the_statistics_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[Tensor] = []
    begin = fediir.FedIIR.begin

    def spy(self: fediir.FedIIR, C: Client) -> object:
        before = C.row.clone()
        sent = begin(self, C)
        rows.append(C.row - before)
        return sent

    monkeypatch.setattr(fediir.FedIIR, "begin", spy)
    finish(small(spec(federation={"rounds": 1}), method("fediir")))
    assert len(rows) == 3
    assert all(not row.any() for row in rows)
