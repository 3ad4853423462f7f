"""FedIIR: the head's gradient in its precisions, what travels, its limit. Its rounds: test_fediir_replay.py."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from fedshift.methods.fediir import head_gradient
from fedshift.testing.toys import finish, method, small, spec


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


def test_it_costs_one_gradient_each_way() -> None:
    federation = finish(small(spec(federation={"rounds": 1}), method("fediir")))
    cost = {row["metric"]: row["value"] for row in federation.records.rows if row["stage"] == "cost"}
    head = 2 * 64 + 2
    assert cost["bytes_down"] == 3 * 4 * (federation.layout.size + head)
    assert cost["bytes_up"] == 3 * 4 * (federation.layout.size + head + 1)
