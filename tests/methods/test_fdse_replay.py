"""Three rounds of FDSE, one of three unequal clients at rest, against the same rounds written out from the paper, without the engine and without the method's functions."""

from itertools import combinations
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from fedshift.federation.loop import Federation
from fedshift.testing.toys import finish, method, spec
from tests.methods import plain

Matrix = NDArray[np.float64]
LOCAL = {
    "batch": 6, "lr": 0.2, "epochs": 2, "batch_rule": "wrap", "weight_decay": 1e-3, "clip": 1.0,
    "schedule": {"kind": "exponential", "unit": "round", "gamma": 0.9},
}  # fmt: skip


def forward(P: plain.Tensors, x: Tensor) -> tuple[Tensor, list[Tensor]]:
    """Eq. 2-3 in every stage: logits, and the inputs of BN_DFE."""
    deskewed = []
    for s in range(1, 5):
        at = f"stages.stage{s}.conv."
        x = F.conv2d(x, P[f"{at}dfe.conv.weight"], P[f"{at}dfe.conv.bias"], padding=1)
        x = plain.norm(P, f"{at}dse.bn.", x, train=True).clamp(min=0)
        expanded = F.conv2d(x, P[f"{at}dse.conv.weight"], padding=1, groups=x.shape[1])
        x = torch.cat([x, expanded], 1) + P[f"{at}dse.bias.bias"].view(1, -1, 1, 1)
        deskewed.append(x)
        x = plain.norm(P, f"{at}dfe.bn.", x, train=True).clamp(min=0)
        x = F.max_pool2d(x, 2) if s < 4 else x
    return x.mean((2, 3)) @ P["head.weight"].T + P["head.bias"], deskewed


class Term:
    """Eq. 4-7 and what the releases compute in their place, in one turn; the statistics received are the goal."""

    def __init__(self, P: plain.Tensors, beta: float, form: str) -> None:
        self.form = form
        self.bns = [f"stages.stage{s}.conv.dfe.bn.running_" for s in range(1, 5)]
        self.goal = [[P[f"{bn}{kind}"].clone() for bn in self.bns] for kind in ("mean", "var")]
        self.own = [list(one) for one in self.goal]
        self.w = np.exp(beta * np.arange(1, 5)) / np.exp(beta * np.arange(1, 5)).sum()
        self.memory: tuple[Tensor, Tensor] | None = None

    def __call__(self, P: plain.Tensors, deskewed: list[Tensor]) -> Tensor:
        layer = {"paper": self.paper, "code_v1": self.first, "code_head": self.second}[self.form]
        total = torch.stack([self.w[i] * layer(P, i, z) for i, z in enumerate(deskewed)]).sum()
        self.memory = self.memory and (self.memory[0].detach(), self.memory[1].detach())
        return total

    def paper(self, P: plain.Tensors, i: int, z: Tensor) -> Tensor:
        now, d = (z.mean((0, 2, 3)), z.var((0, 2, 3), correction=0)), z.shape[1]
        for statistics, new in zip(self.own, now, strict=True):
            statistics[i] = 0.9 * statistics[i].detach() + 0.1 * new
        shift = (self.own[0][i] - self.goal[0][i]).square().sum() / d
        return shift + ((self.own[1][i].sum() - self.goal[1][i].sum()) / d).square()

    def first(self, P: plain.Tensors, i: int, z: Tensor) -> Tensor:
        f = z.mean((0, 2, 3))
        m = 0.9 * P[f"{self.bns[i]}mean"].detach() + 0.1 * f.mean()
        v = 0.9 * P[f"{self.bns[i]}var"].detach() + 0.1 * f.var()
        return (self.goal[0][i] - m).square().mean() + (self.goal[1][i].mean() - v.mean()).square()

    def second(self, P: plain.Tensors, i: int, z: Tensor) -> Tensor:
        f, A, V = z.mean((0, 2, 3)), self.goal[0][i], self.goal[1][i]
        m, v = f.mean(), f.var()
        if self.memory is not None:
            m, v = 0.9 * self.memory[0] + 0.1 * m, 0.9 * self.memory[1] + 0.1 * v
        self.memory = m, v
        spread = torch.log(v / (V + 1e-8)) + V / (v + 1e-8)
        return ((A.square() - m.square()) / (2 * v)).mean() + spread.mean() / 2


def trained(
    f: Federation, P: plain.Tensors, k: int, t: int, lam: float, beta: float, form: str
) -> plain.Tensors:
    """Algorithm 1, lines 6-9."""
    term, local = Term(P, beta, form), f.worker.spec.local
    for _, x, y in plain.batches(f, k, t):
        plain.leaves(P)
        out, deskewed = forward(P, x)
        loss = F.cross_entropy(out, y)
        if t:
            loss = loss + lam * term(P, deskewed)
        plain.descend(P, loss, local.lr * 0.9**t, {}, local)
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


def flat(P: plain.Tensors, names: list[str]) -> Matrix:
    return torch.cat([P[name].flatten() for name in names]).numpy()


def write(P: plain.Tensors, names: list[str], vector: Matrix) -> None:
    parts = torch.from_numpy(vector).split([P[name].numel() for name in names])
    P.update({name: part.view_as(P[name]) for name, part in zip(names, parts, strict=True)})


def mixed(own: list[plain.Tensors], names: list[str], personal: str, tau: float) -> list[plain.Tensors]:
    """Eq. 9, or the plain mean, of the participants' personal tensors."""
    if personal == "none":
        return own
    if personal == "mean":
        return [P | {name: plain.average(own, plain.equal(own))[name] for name in names} for P in own]
    for part in units(names, each=personal == "tensor"):
        V = np.stack([flat(P, part) for P in own])
        Q = V / np.linalg.norm(V, axis=1, keepdims=True)
        A = np.exp(Q @ Q.T / tau)
        for P, vector in zip(own, A / A.sum(1, keepdims=True) @ V, strict=True):
            write(P, part, vector)
    return own


@pytest.mark.parametrize(
    ("unit", "personal", "form", "lam"),
    [
        ("layer", "module", "paper", 5.0),
        ("tensor", "tensor", "code_v1", 5.0),
        ("none", "mean", "code_head", 0.1),
        ("none", "none", "paper", 5.0),
    ],
)
@plain.doubles()
def test_three_rounds(unit: str, personal: str, form: str, lam: float) -> None:
    beta, tau = 0.3, 0.2
    hp: dict[str, Any] = {"lam": lam, "beta": beta, "tau": tau, "consensus": unit, "similarity": personal}
    hp["consistency"] = form
    f = plain.federation(spec(local=LOCAL, federation=plain.PARTIAL), method("fdse", **hp))
    G = plain.named(f, f.state.row)
    kept = [name for name in G if ".dse." in name]
    shared = [name for name in plain.trainable(G) if name not in kept]
    own = [{name: G[name] for name in kept} for _ in plain.SIZES]
    for t in range(plain.PARTIAL["rounds"]):
        chosen = plain.active(f, t)
        up = [trained(f, plain.copied(G | own[k]), k, t, lam, beta, form) for k in chosen]
        if unit == "none":
            mean = plain.average(up, plain.by_size(chosen))
            G |= {name: mean[name] for name in shared}
        for names in units(shared, each=unit == "tensor") if unit != "none" else []:
            D = np.stack([flat(P, names) - flat(G, names) for P in up])
            r = np.linalg.norm(D, axis=1)
            write(G, names, flat(G, names) + r.mean() * least_norm(D / r[:, None]))
        statistics = plain.average(up, plain.equal(chosen))
        G |= {name: statistics[name] for name in G if "running" in name and name not in kept}
        left = [{name: P[name] for name in kept} for P in up]
        personal_names = [name for name in kept if "running" not in name]
        for k, mine in zip(chosen, mixed(left, personal_names, personal, tau), strict=True):
            own[k] = mine
    finish(f)
    for k, mine in enumerate(own):
        assert plain.far(plain.kept(f, k), G | mine) < 1e-9
    # For a domain that no client has: the plain mean over all clients, whoever took part last.
    G |= {name: torch.stack([mine[name] for mine in own]).mean(0) for name in kept}
    assert plain.far(plain.named(f, f.method.unseen(f.server)[0]), G) < 1e-9
