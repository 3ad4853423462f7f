"""Two rounds of FedRD against the same rounds written out from the paper, in fp64 and without the method's functions."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from fedshift.federation.loop import Federation
from tests.federation.toys import finish, method, spec
from tests.methods.plain import (
    SIZES,
    Tensors,
    batches,
    descend,
    far,
    federation,
    leaves,
    logits,
    named,
    pixels,
)

LOCAL = {
    "batch": 4, "lr": 0.05, "momentum": 0.9, "epochs": 2, "batch_rule": "drop_last", "weight_decay": 5e-3,
    "optimizer_state": "persist",
}  # fmt: skip
FEW = ([1], [0], [0, 1])
INDICATOR, HEAD = "stages.stage1.conv.weight", "head.weight"


def losses(out: Tensor, y: Tensor) -> Tensor:
    return -torch.log_softmax(out, 1)[torch.arange(len(y)), y]


def validation(f: Federation, P: Tensors, k: int) -> Tensor:
    """F(D_i; w) of Eq. 3."""
    x, y = f.turn.samples.take(f.clients[k].val)
    return losses(logits(P, pixels(x).double(), train=False), y).mean()


def lengths(W: Tensor) -> Tensor:
    return W.square().sum(1).sqrt()


@pytest.mark.parametrize(
    ("hp", "counted"),
    [
        ({"lambda_from": "epoch_start", "ce_norm": "weighted_mean"}, 3),
        ({"lambda_from": "prev_round", "ce_norm": "batch_mean"}, 3),
        ({"lambda_from": "step", "ce_norm": "sum", "official_bug_n4": True}, 4),
    ],
)
def test_two_rounds(hp: dict[str, Any], counted: int) -> None:
    few_shot = {f"domain{k}": few for k, few in enumerate(FEW)}
    f = federation(spec(local=LOCAL, federation={"rounds": 2}), method("fedrd", few_shot=few_shot, **hp))
    G = {name: value.double() for name, value in named(f, f.state.row).items()}
    momenta: list[Tensors] = [{} for _ in SIZES]
    last = [G[HEAD] for _ in SIZES]
    for t in range(2):
        up: list[Tensors] = []
        gap, d = torch.zeros(3, dtype=torch.float64), torch.zeros(3, dtype=torch.float64)
        for k in range(3):
            P = {name: value.clone() for name, value in G.items()}
            if t == 0:
                last[k] = P[HEAD]
            gap[k] = validation(f, P, k)
            for new_epoch, x, y in batches(f, k, t):
                if new_epoch or hp["lambda_from"] == "step":
                    W = last[k] if hp["lambda_from"] == "prev_round" else P[HEAD].detach()
                    alpha = torch.ones(2, dtype=torch.float64)
                    alpha[FEW[k]] += lengths(G[HEAD] - W).mean()
                leaves(P)
                weighted = losses(logits(P, x.double(), train=True), y) * alpha[y]
                count = {"weighted_mean": alpha[y].sum(), "batch_mean": len(y), "sum": 1}[hp["ce_norm"]]
                descend(P, weighted.sum() / count, LOCAL["lr"], momenta[k], f.turn.spec.local)
            last[k] = P[HEAD]
            gap[k] -= validation(f, P, k)
            d[k] = (P[INDICATOR] - G[INDICATOR]).square().sum().sqrt()
            up.append(P)
        gamma = 1 / (1 + torch.exp(-gap))
        weights = ((1 - d / d.sum()) / (counted - 1) + gamma / gamma.sum()) / 2
        G = {name: sum(w * P[name] for w, P in zip(weights, up, strict=True)) for name in G}
    finish(f)
    assert far(named(f, f.state.row), G) < 5e-5  # the engine is in fp32 here
