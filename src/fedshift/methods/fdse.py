"""FDSE: shared layers extract, personal ones erase the domain's shift (Wang et al., CVPR 2025).

Every layer of a network becomes a block (models/layers/dse.py) of a shared extractor (DFE) and a personal,
cheap eraser (DSE). Clients train with a term that pulls the eraser's output towards the global statistics;
the server moves the shared tensors by the least conflicting direction and mixes the personal ones by
similarity.

Deviations. Eq. 8 is solved over the simplex (as printed, u = 0 is optimal). Sec. 4.3.1 says "DSE modules and
heads" of the shared
tensors: DFE is meant. The term of Eq. 6 starts in the second round (released code; before, the statistics
received are those of the start). Clients without any update in a unit stay out of its Eq. 8, a zero row keeps
itself in Eq. 9 (both undefined in the paper). Released code: units are single tensors, Eq. 6 takes other
forms (below), blocks differ (Decomposition): presets `released_v1`, the first release, and `released`. Unseen
domain, undefined in the paper: `unseen_dse`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from fedshift.equations import equation
from fedshift.errors import FedshiftError
from fedshift.federation.aggregate import mean
from fedshift.federation.client import Client
from fedshift.federation.diagnostics import Diagnostic
from fedshift.federation.layout import Index, Layout
from fedshift.federation.method import Method
from fedshift.federation.server import Server
from fedshift.methods._fdse_released import consistency_head, consistency_v1
from fedshift.methods._min_norm import min_norm
from fedshift.models.base import Model
from fedshift.models.layers.dse import Decomposition, DSEBlock, decompose
from fedshift.models.layers.moments import BatchMoments

MEASURED_ROUNDS = (
    20  # each measures its gradients; later rounds cost a backward pass less but for every tenth
)
KEEP = 0.9  # of the old value in running statistics: 1 - the momentum of BN_DFE


@dataclass(frozen=True)
class Params(Decomposition):
    """And of the federation.

    lam: weight of the consistency term; beta: its growth with depth; tau: temperature of the similarity;
        consensus: unit of Eq. 8, or
    none: the plain weighted mean; similarity: unit of Eq. 9, or none: every client keeps its own, or mean;
    consistency: the form of Eq. 6, or none; consistency_from_round: counted from 1; unseen_dse: personal
    tensors and statistics for a domain that no client has.
    """

    lam: float = 0.1
    beta: float = 0.001
    tau: float = 0.5
    consensus: Literal["layer", "tensor", "none"] = "layer"
    similarity: Literal["module", "tensor", "mean", "none"] = "module"
    consistency: Literal["paper", "code_v1", "code_head", "none"] = "paper"
    consistency_from_round: int = 2
    unseen_dse: Literal["mean", "init"] = "mean"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tau <= 0 or self.lam < 0:
            raise ValueError(f"tau must be positive and lam not negative, not {self.tau} and {self.lam}")


@equation("FDSE", "Eq. 4")
def moments(x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and biased variance [T] of every channel of x [B, T, ..] over all other axes, in fp32 at least
    (fp64 stays fp64).
    """
    average, variance = BatchMoments.apply(x)  # type: ignore[no-untyped-call]
    return average, variance


@equation("FDSE", "Eq. 5")
def running(before: Tensor, batch: Tensor) -> Tensor:
    """gamma before + (1 - gamma) batch, gamma = 0.9: running means, or running variances, [D] after one more
    batch.

    Only `batch` has a gradient, which the factor 0.1 therefore scales.
    """
    return KEEP * before.detach() + (1 - KEEP) * batch


@equation("FDSE", "Eq. 6")
def consistency(
    average: Tensor, variance: Tensor, global_average: Tensor, global_variance: Tensor, channels: Tensor
) -> Tensor:
    """(1/d) ||mean - global mean||^2 + ((sum variance - sum global variance) / d)^2 of each of L layers, [L].

    All layers' statistics lie in one vector [D]; channels [L, D] is 1/d where a channel belongs to a layer,
    else 0: for one layer alone torch.full((1, d), 1 / d).
    """
    shift = (channels * (average - global_average).square()).sum(1)
    return shift + (channels * (variance - global_variance)).sum(1).square()


@equation("FDSE", "Eq. 7")
def depth_weights(depth: Tensor, beta: float) -> Tensor:
    """exp(beta l) / sum_j exp(beta j) for depths l [L], counted from any number; in the dtype of `depth`,
    integers give fp32.
    """
    return torch.softmax(beta * depth, 0)


class Alignment:
    """L_con of a network in training. The statistics of BN_DFE that it comes with stay the goal, and start
    the running ones.
    """

    def __init__(self, model: Model, beta: float) -> None:
        self.blocks = [module for module in model.modules() if isinstance(module, DSEBlock)]
        self.sizes = [block.outputs for block in self.blocks]
        self.bns: list[Any] = [block.dfe.bn for block in self.blocks]
        goal = [torch.cat([getattr(bn, name) for bn in self.bns]) for name in ("running_mean", "running_var")]
        self.goal, self.own = goal, goal
        self.channels = torch.block_diag(*[goal[0].new_full((1, size), 1 / size) for size in self.sizes])
        self.weights = depth_weights(torch.arange(len(self.bns), device=goal[0].device), beta).to(goal[0])
        self.memory: tuple[Tensor, Tensor] | None = None

    def term(self) -> Tensor:
        """Eq. 4-7 for the batch that the network has just seen; a scalar."""
        batch = zip(*self._moments(), strict=True)
        self.own = [running(before, torch.cat(now)) for before, now in zip(self.own, batch, strict=True)]
        layers = consistency(self.own[0], self.own[1], self.goal[0], self.goal[1], self.channels)
        return (self.weights * layers).sum()

    def first_release(self) -> Tensor:
        """The same in the first release."""
        averages, variances = (vector.split(self.sizes) for vector in self.goal)
        layers = [
            consistency_v1(batch, bn.running_mean, bn.running_var, average, variance)
            for (batch, _), bn, average, variance in zip(
                self._moments(), self.bns, averages, variances, strict=True
            )
        ]
        return (self.weights * torch.stack(layers)).sum()

    def second_release(self) -> Tensor:
        """The same in the second release."""
        averages, variances = (vector.split(self.sizes) for vector in self.goal)
        batches = [batch for batch, _ in self._moments()]
        term, memory = consistency_head(batches, averages, variances, self.weights, self.memory)
        self.memory = memory[0].detach(), memory[1].detach()
        return term

    def _moments(self) -> list[tuple[Tensor, Tensor]]:
        return [moments(block.deskewed) for block in self.blocks if block.deskewed is not None]


@equation("FDSE", "Eq. 8")
def consensus(updates: Tensor, factors: Tensor | None = None) -> Tensor:
    """The common update [n] of updates [K, n] of one unit: their mean norm times the shortest convex
    combination of their directions.

    No update loses: its inner product with the result is not negative. factors [K]: consensus_factors of the
    updates' inner products, where they are computed already. Raises FedshiftError for an update that is not
    finite.
    """
    if factors is None:
        factors = consensus_factors((updates @ updates.T).double().cpu())
    return factors.to(updates, non_blocking=True) @ updates


@equation("FDSE", "Eq. 8, factors")
def consensus_factors(gram: Tensor) -> Tensor:
    """What the updates are multiplied by in their common one, [K], from their inner products gram [K, K], in
    float64 on the CPU: mean norm u_k / norm_k.

    Updates shorter than 1e-12 have no direction and weight 0, but count in the mean norm. u itself:
    fedshift.methods._min_norm.min_norm of the directions' inner products. Raises FedshiftError for an update
    that is not finite.
    """
    all_finite(gram, "Eq. 8", range(len(gram)))
    norms = gram.diagonal().sqrt()
    moved = (norms > 1e-12).nonzero().flatten()
    weights = torch.zeros_like(norms)
    if len(moved):
        unit = gram[moved][:, moved] / torch.outer(norms[moved], norms[moved])
        weights[moved] = norms.mean() * min_norm(unit) / norms[moved]
    return weights


def all_finite(gram: Tensor, place: str, clients: Sequence[int]) -> None:
    """Raises FedshiftError that names those of K clients whose update has no finite norm: gram [K, K], the
    updates' inner products.
    """
    lost = [k for k, norm in zip(clients, gram.diagonal().tolist(), strict=True) if not math.isfinite(norm)]
    if lost:
        who = f"client{'s' if len(lost) > 1 else ''} {', '.join(map(str, lost))}"
        cure = "Training has diverged there: lower local.lr, or set local.clip."
        raise FedshiftError(f"method fdse, {place}", f"the update of {who} is infinite or NaN", cure)


@equation("FDSE", "Eq. 9")
def similarity(values: Tensor, tau: float) -> Tensor:
    """Weights [K, K] of values [K, n] (one unit's parameters, not updates): softmax over each row of their
    cosines / tau.

    The next values are weights @ values. A zero row keeps itself, and has cosine 0 with the others.
    """
    norms = values.norm(dim=1, keepdim=True)
    unit = values / norms.where(norms > 0, 1)
    itself = torch.eye(len(values), dtype=values.dtype, device=values.device)
    return torch.where(norms > 0, torch.softmax(unit @ unit.T / tau, 1), itself)


class Parts:
    """Where the units of Eq. 8 and Eq. 9 and the shared statistics lie in a row: computed once, since a
    search reads every position.
    """

    def __init__(self, S: Server, hp: Params) -> None:
        L, device = S.layout, S.row.device

        def cut(index: Index, unit: str) -> list[slice | Tensor]:
            if unit == "tensor":
                inside = index.mask
                return [entry.slice for entry in L.entries if inside[entry.offset]]
            return [part.to(device).at for part in L.units(index)]

        self.shared = cut(S.shared & L.trainable, hp.consensus)
        firsts = [at.start if isinstance(at, slice) else int(at[0]) for at in self.shared]
        entries = [next(entry for entry in L.entries if entry.slice.stop > first) for first in firsts]
        self.names = [entry.name if hp.consensus == "tensor" else entry.unit for entry in entries]
        self.personal = cut(S.personal, hp.similarity)
        self.statistics = (S.shared & ~L.trainable).to(device).at


class FDSE(Method):
    """S: DFE layers, BN_DFE, head: shared. P: DSE layers, affine BN_DSE, bias: personal. Statistics of
    BN_DSE: local.
    """

    name = "fdse"
    version = 2
    Params = Params
    diagnostics = (
        Diagnostic("task_gradient", "norm of the task's gradient at the client's first step"),
        Diagnostic("consistency_gradient", "the same of lambda L_con (Eq. 4-7)"),
        Diagnostic("consensus", "factors of the clients' updates, by unit (Eq. 8)", ("K", "units"), "server"),
        Diagnostic(
            "similarity", "of each client: weights of all, by unit (Eq. 9)", ("K", "units", "K"), "server"
        ),
    )
    waits = 1  # Eq. 8 is solved on the host

    def __init__(self, hp: Any = None) -> None:
        super().__init__(hp)
        self._parts: Parts | None = None

    def model(self, model: Model) -> Model:
        if not decompose(model, self.hp):
            cure = "Choose one whose blocks say `decomposes`: alexnet_bn, digits_cnn, resnet50, vit_small."
            raise FedshiftError("method fdse", f"'{model.name}' has no layer to decompose", cure)
        return model

    def personal(self, L: Layout) -> Index:
        return L.role("dse") & L.trainable

    def local(self, L: Layout) -> Index:
        return L.role("dse") & ~L.trainable

    def begin(self, C: Client) -> None:
        C.tmp.alignment = Alignment(C.model, self.hp.beta)

    def loss(self, C: Client, x: Tensor, y: Tensor) -> Tensor:
        task = super().loss(C, x, y)
        hp, alignment = self.hp, C.tmp.alignment
        if hp.lam == 0 or hp.consistency == "none" or C.t + 1 < hp.consistency_from_round:
            return task
        forms = {
            "paper": alignment.term,
            "code_v1": alignment.first_release,
            "code_head": alignment.second_release,
        }
        term = hp.lam * forms[hp.consistency]()
        if C.steps == 0 and (C.t < MEASURED_ROUNDS or C.t % 10 == 0):
            C.tmp.term_gradient = C.gradient(term)
        return task + term

    def grad(self, C: Client, g: Tensor) -> None:
        """Record the norms of the two gradients that `g` is the sum of, each over all trainable entries, at
        the client's first step.
        """
        term = C.tmp.__dict__.pop("term_gradient", None)
        if term is not None:
            C.record("consistency_gradient", term.norm())
            C.record("task_gradient", (g - term).norm())

    def aggregate(self, S: Server, rows: Tensor, p: Tensor, up: Mapping[str, Tensor]) -> None:
        self._parts = parts = self._parts or Parts(S, self.hp)
        equal = torch.full_like(p, 1 / len(p))
        factors = [] if self.hp.consensus == "none" else self._factors(S, rows, parts)
        for place, at in enumerate(parts.shared):  # S.row is still what was broadcast
            if factors:
                S.row[at] += consensus(rows[:, at] - S.row[at], factors[place])
            else:
                S.row[at] = mean(rows[:, at], p)
        mixing = []
        for at in parts.personal:
            if self.hp.similarity == "mean":
                rows[:, at] = mean(rows[:, at], equal)
            elif self.hp.similarity != "none":
                mixing.append(similarity(rows[:, at], self.hp.tau))
                rows[:, at] = mixing[-1] @ rows[:, at]
        if mixing:
            S.record("similarity", torch.stack(mixing, 1))
        S.row[parts.statistics] = mean(rows[:, parts.statistics], equal)

    def _factors(self, S: Server, rows: Tensor, parts: Parts) -> list[Tensor]:
        """Of all updates of each unit, from their inner products, on the CPU: the one time that the server
        waits for the device.
        """
        updates = (rows[:, at] - S.row[at] for at in parts.shared)
        grams = list(torch.stack([update @ update.T for update in updates]).double().cpu())
        for name, gram in zip(parts.names, grams, strict=True):
            all_finite(gram, f"round {S.t + 1}, unit '{name}'", S.active)
        factors = [consensus_factors(gram) for gram in grams]
        S.record("consensus", torch.stack(factors, 1))
        return factors

    def unseen(self, S: Server) -> Tensor:
        """Personal tensors and BN_DSE statistics averaged over the clients that have trained, or the start.

        The server's own kept entries are never written.
        """
        row = S.row.clone()
        if self.hp.unseen_dse == "mean":
            for kept in (S.personal, S.local):
                row[kept.at] = S.peek(kept)[S.trained].mean(0)
        return row[None]
