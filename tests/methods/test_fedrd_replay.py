"""Three rounds of FedRD, one of three unequal clients at rest, against the same rounds written out from the paper, in fp64 and without the method's functions."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from fedshift.federation.loop import Federation
from fedshift.testing.toys import finish, method, spec
from tests.methods import plain

LOCAL = {
    "batch": 5, "lr": 0.02, "momentum": 0.9, "epochs": 2, "batch_rule": "drop_last", "weight_decay": 5e-3,
    "optimizer_state": "persist",
}  # fmt: skip
FEW = [[1], [0], [0, 1]]  # of each client, as the toys have it
INDICATOR, HEAD = "stages.stage1.conv.weight", "head.weight"


def losses(out: Tensor, y: Tensor) -> Tensor:
    return -torch.log_softmax(out, 1)[torch.arange(len(y)), y]


def validation(f: Federation, P: plain.Tensors, k: int) -> Tensor:
    """F(D_i; w) of Eq. 3."""
    x, y = f.worker.samples.take(f.clients[k].val)
    return losses(plain.logits(P, plain.pixels(x).double(), train=False), y).mean()


def lengths(W: Tensor) -> Tensor:
    return W.square().sum(1).sqrt()


@pytest.mark.parametrize(
    ("hp", "counted"),
    [
        ({"lambda_from": "epoch_start", "ce_norm": "weighted_mean"}, 2),
        ({"lambda_from": "prev_round", "ce_norm": "batch_mean"}, 2),
        ({"lambda_from": "step", "ce_norm": "sum", "official_bug_n4": True}, 3),
    ],
)
def test_three_rounds(hp: dict[str, Any], counted: int) -> None:
    f = plain.federation(spec(local=LOCAL, federation=plain.PARTIAL), method("fedrd", **hp))
    assert [list(client.few_shot) for client in f.clients] == FEW
    G = {name: value.double() for name, value in plain.named(f, f.state.row).items()}
    momenta: list[plain.Tensors] = [{} for _ in plain.SIZES]
    last: list[Tensor | None] = [None for _ in plain.SIZES]
    for t in range(plain.PARTIAL["rounds"]):
        up: list[plain.Tensors] = []
        gap, d = torch.zeros(2, dtype=torch.float64), torch.zeros(2, dtype=torch.float64)
        for i, k in enumerate(plain.active(f, t)):
            P = {name: value.clone() for name, value in G.items()}
            before = G[HEAD] if last[k] is None else last[k]
            gap[i] = validation(f, P, k)
            for new_epoch, x, y in plain.batches(f, k, t):
                if new_epoch or hp["lambda_from"] == "step":
                    W = before if hp["lambda_from"] == "prev_round" else P[HEAD].detach()
                    alpha = torch.ones(2, dtype=torch.float64)
                    alpha[FEW[k]] += lengths(G[HEAD] - W).mean()
                plain.leaves(P)
                weighted = losses(plain.logits(P, x.double(), train=True), y) * alpha[y]
                count = {"weighted_mean": alpha[y].sum(), "batch_mean": len(y), "sum": 1}[hp["ce_norm"]]
                plain.descend(P, weighted.sum() / count, LOCAL["lr"], momenta[k], f.worker.spec.local)
            last[k] = P[HEAD]
            gap[i] -= validation(f, P, k)
            d[i] = (P[INDICATOR] - G[INDICATOR]).square().sum().sqrt()
            up.append(P)
        gamma = 1 / (1 + torch.exp(-gap))
        weights = ((1 - d / d.sum()) / (counted - 1) + gamma / gamma.sum()) / 2
        G = plain.average(up, weights.tolist())
    finish(f)
    assert plain.far(plain.named(f, f.state.row), G) < 5e-5  # the engine is in fp32 here
