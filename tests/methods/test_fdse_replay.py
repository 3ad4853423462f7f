"""Two rounds of FDSE against the same rounds written out from the paper, without the engine and without the method's functions."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from fedshift.federation.loop import Federation
from tests.federation.toys import finish, method, spec
from tests.methods.plain import (
    SIZES,
    Tensors,
    batches,
    descend,
    doubles,
    far,
    federation,
    leaves,
    named,
    norm,
    trainable,
)

Matrix = NDArray[np.float64]
LOCAL = {
    "batch": 4, "lr": 0.2, "epochs": 2, "batch_rule": "wrap", "weight_decay": 1e-3, "clip": 1.0,
    "schedule": {"kind": "exponential", "unit": "round", "gamma": 0.9},
}  # fmt: skip


def forward(P: Tensors, x: Tensor) -> tuple[Tensor, list[Tensor]]:
    """Eq. 2-3 in every stage: logits, and the inputs of BN_DFE."""
    deskewed = []
    for s in range(1, 5):
        at = f"stages.stage{s}.conv."
        x = F.conv2d(x, P[f"{at}dfe.conv.weight"], P[f"{at}dfe.conv.bias"], padding=1)
        x = norm(P, f"{at}dse.bn.", x, train=True).clamp(min=0)
        expanded = F.conv2d(x, P[f"{at}dse.conv.weight"], padding=1, groups=x.shape[1])
        x = torch.cat([x, expanded], 1) + P[f"{at}dse.bias.bias"].view(1, -1, 1, 1)
        deskewed.append(x)
        x = norm(P, f"{at}dfe.bn.", x, train=True).clamp(min=0)
        x = F.max_pool2d(x, 2) if s < 4 else x
    return x.mean((2, 3)) @ P["head.weight"].T + P["head.bias"], deskewed


def trained(f: Federation, P: Tensors, k: int, t: int, lam: float, beta: float) -> Tensors:
    """Algorithm 1, lines 6-9."""
    bns = [f"stages.stage{s}.conv.dfe.bn.running_" for s in range(1, 5)]
    goal = [[P[f"{bn}{kind}"].clone() for bn in bns] for kind in ("mean", "var")]
    own = [list(one) for one in goal]
    w = np.exp(beta * np.arange(1, 5)) / np.exp(beta * np.arange(1, 5)).sum()
    local = f.turn.spec.local
    for _, x, y in batches(f, k, t):
        leaves(P)
        out, deskewed = forward(P, x)
        loss = F.cross_entropy(out, y)
        for i, z in enumerate(deskewed if t else []):
            now = z.mean((0, 2, 3)), z.var((0, 2, 3), correction=0)
            for statistics, new in zip(own, now, strict=True):
                statistics[i] = 0.9 * statistics[i].detach() + 0.1 * new
            d = len(now[0])
            shift = (own[0][i] - goal[0][i]).square().sum() / d
            loss = loss + lam * w[i] * (shift + ((own[1][i].sum() - goal[1][i].sum()) / d).square())
        descend(P, loss, local.lr * 0.9**t, {}, local)
    return {name: value.detach() for name, value in P.items()}


def least_norm(E: Matrix) -> Matrix:
    """The shortest point of the hull of the rows of E: the best stationary point over all subsets."""
    best: tuple[float, Matrix] = (np.inf, E[0])
    for size in range(1, len(E) + 1):
        for chosen in combinations(E, size):
            e = np.stack(chosen)
            system = np.block([[e @ e.T, np.ones((size, 1))], [np.ones((1, size)), np.zeros((1, 1))]])
            u = np.linalg.lstsq(system, np.eye(size + 1)[size], rcond=None)[0][:size]
            if u.min() >= -1e-12 and abs(u.sum() - 1) < 1e-9:
                best = min(best, (float(np.square(u @ e).sum()), u @ e), key=lambda one: one[0])
    return best[1]


def units(names: list[str], each: bool) -> list[list[str]]:
    """Blocks and head, or single tensors."""
    keys = [name if each else name.split(".d")[0].split(".")[-2] for name in names]
    return [[n for n, key in zip(names, keys, strict=True) if key == one] for one in dict.fromkeys(keys)]


def flat(P: Tensors, names: list[str]) -> Matrix:
    return torch.cat([P[name].flatten() for name in names]).numpy()


def write(P: Tensors, names: list[str], vector: Matrix) -> None:
    parts = torch.from_numpy(vector).split([P[name].numel() for name in names])
    P.update({name: part.view_as(P[name]) for name, part in zip(names, parts, strict=True)})


@pytest.mark.parametrize(("unit", "personal"), [("layer", "module"), ("tensor", "tensor")])
@doubles()
def test_two_rounds(unit: str, personal: str) -> None:
    lam, beta, tau = 5.0, 0.3, 0.2
    hp = {"lam": lam, "beta": beta, "tau": tau, "consensus": unit, "similarity": personal}
    f = federation(spec(local=LOCAL, federation={"rounds": 2}), method("fdse", **hp))
    G = named(f, f.state.row)
    kept = [name for name in G if ".dse." in name]
    shared = [name for name in trainable(G) if name not in kept]
    own = [{name: G[name] for name in kept} for _ in SIZES]
    for t in range(2):
        received = [{name: value.clone() for name, value in (G | mine).items()} for mine in own]
        up = [trained(f, P, k, t, lam, beta) for k, P in enumerate(received)]
        for names in units(shared, each=unit == "tensor"):
            D = np.stack([flat(P, names) - flat(G, names) for P in up])
            r = np.linalg.norm(D, axis=1)
            write(G, names, flat(G, names) + r.mean() * least_norm(D / r[:, None]))
        statistics = [name for name in G if "running" in name and name not in kept]
        G |= {name: torch.stack([P[name] for P in up]).mean(0) for name in statistics}
        own = [{name: P[name] for name in kept} for P in up]
        for names in units([name for name in kept if "running" not in name], each=personal == "tensor"):
            V = np.stack([flat(P, names) for P in up])
            Q = V / np.linalg.norm(V, axis=1, keepdims=True)
            A = np.exp(Q @ Q.T / tau)
            for mine, vector in zip(own, A / A.sum(1, keepdims=True) @ V, strict=True):
                write(mine, names, vector)
    finish(f)
    for k, mine in enumerate(own):
        row = f.state.row.clone()
        row[f.state.kept.at] = f.state.own[k]
        assert far(named(f, row), G | mine) < 1e-9
