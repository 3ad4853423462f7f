"""FDSE: the consistency term in the loss, its value, its gradient."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fedshift.common.registry import get
from fedshift.methods.fdse.block import DSEBlock
from fedshift.methods.fdse.consistency import Alignment
from fedshift.testing.toys import finish, method, small, spec


@pytest.mark.parametrize("form", ["paper", "code_v1", "code_head"])
def test_the_term_is_in_the_loss_from_its_round_on(form: str) -> None:
    """The same first step with and without; lam = 0 and "none" are the same run bit for bit."""

    def losses(**hp: Any) -> list[float]:
        run = finish(small(spec(local={"batch": 12}, federation={"rounds": 2}), method("fdse", **hp)))
        return [row["value"] for row in run.records.rows if row["split"] == "train"]

    with_term, without = losses(lam=1.0, consistency=form), losses(lam=0.0)
    assert with_term[:3] == without[:3]
    assert with_term[3] != without[3]
    assert losses(consistency="none") == without
    from_the_start = losses(lam=1.0, consistency=form, consistency_from_round=1)
    assert from_the_start[0] != without[0]


def aligned(beta: float = 0.001) -> tuple[nn.Module, Alignment, Tensor]:
    torch.manual_seed(0)
    model = method("fdse").model(get("models", "digits_cnn")(2, 32))
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_()
            module.running_var.uniform_(0.5, 2)
    return model, Alignment(model, beta), torch.randn(6, 3, 32, 32)


def test_the_term_of_a_network_by_hand() -> None:
    """Three batches: the goal stays, the running statistics go on from it; for means they are BN_DFE's own."""
    model, alignment, x = aligned(beta=0.5)
    blocks = [module for module in model.modules() if isinstance(module, DSEBlock)]
    goal = [(b.dfe.bn.running_mean.clone(), b.dfe.bn.running_var.clone()) for b in blocks]
    own_variance = [variance for _, variance in goal]
    for batch in (x, x + 1, 2 * x):
        model(batch)
        got = alignment.term()
        expected = 0.0
        for depth, block in enumerate(blocks):
            flat = block.deskewed.detach().transpose(0, 1).flatten(1)
            own_variance[depth] = 0.9 * own_variance[depth] + 0.1 * flat.var(1, correction=0)
            shift = (block.dfe.bn.running_mean - goal[depth][0]).square().mean()
            spread = (own_variance[depth].sum() - goal[depth][1].sum()) / len(flat)
            expected += math.exp(0.5 * depth) / sum(map(math.exp, (0, 0.5, 1, 1.5))) * (shift + spread**2)
        assert got.item() == pytest.approx(float(expected), rel=1e-4)


def test_the_term_reaches_every_block_and_fits_finite_differences() -> None:
    model, alignment, x = aligned()
    model.double()
    alignment = Alignment(model, 0.001)
    model(x.double())
    alignment.term().backward()
    for name, parameter in model.named_parameters():
        if name.endswith(("dse.conv.weight", "dse.bias.bias", "dse.bn.weight", "dfe.conv.weight")):
            assert parameter.grad is not None and parameter.grad.abs().max() > 0, name
        if name.startswith("head"):
            assert parameter.grad is None
    named = dict(model.named_parameters())
    for tail in ("dse.bias.bias", "dse.conv.weight", "dse.bn.weight"):
        one = named[f"stages.stage4.conv.{tail}"]
        steps = []
        for step in (1e-5, -2e-5):
            with torch.no_grad():
                one[3] += step
                again = Alignment(model, 0.001)
                again.goal = again.own = alignment.goal
                model(x.double())
                steps.append(again.term().item())
        with torch.no_grad():
            one[3] += 1e-5
        assert one.grad is not None
        assert one.grad[3].sum().item() == pytest.approx((steps[0] - steps[1]) / 2e-5, rel=1e-3)


def test_the_term_is_reckoned_in_fp32_under_autocast() -> None:
    model, alignment, x = aligned()
    model(x)
    exact = alignment.term()
    model, alignment, x = aligned()
    with torch.autocast("cpu", torch.bfloat16):
        model(x)
        near = alignment.term()
    assert near.dtype == torch.float32
    assert near.item() == pytest.approx(exact.item(), rel=0.02)


def test_descent_of_personal_tensors_on_the_term_alone() -> None:
    """What adaptation at test time does."""
    model, _, x = aligned()
    steps = []
    own = [parameter for name, parameter in model.named_parameters() if ".dse." in name]
    optimizer = torch.optim.SGD(own, lr=200.0)
    goal = Alignment(model, 0.001).goal
    for _ in range(10):
        alignment = Alignment(model, 0.001)
        alignment.goal = alignment.own = goal
        model(x)
        term = alignment.term()
        optimizer.zero_grad()
        term.backward()
        optimizer.step()
        steps.append(term.item())
    assert steps == sorted(steps, reverse=True) and steps[-1] < 0.6 * steps[0]
