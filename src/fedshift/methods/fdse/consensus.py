"""FDSE's aggregation: consensus of the shared updates (Eq. 8), similarity of the personal tensors (Eq. 9)."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from fedshift.common.equations import equation
from fedshift.common.errors import FedshiftError


@equation("FDSE", "Eq. 8")
def consensus(updates: Tensor, factors: Tensor | None = None) -> Tensor:
    """The common update [n] of updates [K, n] of one layer: their mean norm times the shortest convex
    combination of their directions.

    No update loses: its inner product with the result is not negative. factors [K]: consensus_factors of the
    `inner_products`, where they are computed already. Raises FedshiftError for an update that is not finite.
    """
    if factors is None:
        factors = consensus_factors(inner_products(updates))
    return factors.to(updates, non_blocking=True) @ updates


@equation("FDSE", "Eq. 8, factors")
def consensus_factors(gram: Tensor) -> Tensor:
    """What the updates are multiplied by in their common one, [K], from their inner products gram [K, K], in
    float64 on the CPU: mean norm u_k / norm_k.

    Updates shorter than 1e-12 have no direction and weight 0, but count in the mean norm. u: `min_norm` of
    the directions' inner products.
    """
    norms = gram.diagonal().sqrt()
    moved = (norms > 1e-12).nonzero().flatten()
    weights = torch.zeros_like(norms)
    if len(moved):
        unit = gram[moved][:, moved] / torch.outer(norms[moved], norms[moved])
        weights[moved] = norms.mean() * min_norm(unit) / norms[moved]
    return weights


def inner_products(updates: Tensor, place: str = "Eq. 8", clients: Sequence[int] | None = None) -> Tensor:
    """Inner products [K, K] of updates [K, n] in float64 on the CPU.

    Raises FedshiftError naming place and client (default: 0 .. K - 1) for an update that is not finite.
    """
    gram = (updates @ updates.T).double().cpu()
    numbered = zip(clients or range(len(gram)), gram.diagonal().tolist(), strict=True)
    lost = [k for k, norm in numbered if not math.isfinite(norm)]
    if lost:
        who = f"client{'s' if len(lost) > 1 else ''} {', '.join(map(str, lost))}"
        cure = "Training has diverged there: lower local.lr, or set local.clip."
        raise FedshiftError(f"method fdse, {place}", f"the update of {who} is infinite or NaN", cure)
    return gram


@equation("FDSE", "Eq. 9")
def similarity(values: Tensor, tau: float) -> Tensor:
    """Weights [K, K] of values [K, n] (one layer's parameters, not updates): softmax over each row of their
    cosines / tau.

    The next values are weights @ values. A zero row keeps itself, and has cosine 0 with the others.
    """
    norms = values.norm(dim=1, keepdim=True)
    unit = values / norms.where(norms > 0, 1)
    itself = torch.eye(len(values), dtype=values.dtype, device=values.device)
    return torch.where(norms > 0, torch.softmax(unit @ unit.T / tau, 1), itself)


@equation("FDSE", "Eq. 8, u")
def min_norm(gram: Tensor) -> Tensor:
    """argmin of ||sum_k u_k e_k||^2 over u >= 0, sum u = 1, from the inner products gram [K, K] (float64, on
    the CPU) of the e_k; u [K].

    Non-negative least squares of [E; 1] u = [0; 1], then u / sum u, with a factor of gram in E's place. Where
    vectors coincide, u is one of several, but sum u_k e_k is not. (Lawson and Hanson 1974, chapter 23.)
    """
    from scipy.optimize import nnls

    values, vectors = torch.linalg.eigh(gram)
    factor = values.clamp(min=0).sqrt()[:, None] * vectors.T
    ones = gram.new_ones(1, len(gram))
    goal = torch.cat([gram.new_zeros(len(gram)), gram.new_ones(1)])
    u = torch.from_numpy(nnls(torch.cat([factor, ones]).numpy(), goal.numpy())[0])
    return u / u.sum()
