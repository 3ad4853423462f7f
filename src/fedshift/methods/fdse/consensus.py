"""FDSE's aggregation: consensus of the shared updates (Eq. 8), similarity of the personal tensors (Eq. 9)."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from fedshift.common.equations import equation
from fedshift.common.errors import FedshiftError


@equation("FDSE", "Eq. 8")
def consensus(updates: Tensor, factors: Tensor | None = None) -> Tensor:
    """The common update [n] from updates [K, n] of one layer (Eq. 8).

    It is the shortest convex combination of the updates' directions, times their mean norm. Its inner product
    with each update is not negative.

    factors [K]: `consensus_factors` of the `inner_products`, if already computed. Raises FedshiftError for an
    update that is not finite.
    """
    if factors is None:
        factors = consensus_factors(inner_products(updates))
    return factors.to(updates, non_blocking=True) @ updates


@equation("FDSE", "Eq. 8, factors")
def consensus_factors(gram: Tensor) -> Tensor:
    """Factors [K] of the updates in their common one, from their inner products gram [K, K]; float64 on the
    CPU.

    They are (mean norm) u_k / norm_k, where u is `min_norm` of the directions' inner products. Updates
    shorter than 1e-12 have no direction and factor 0, but their norms are part of the mean norm.
    """
    norms = gram.diagonal().sqrt()
    moved = (norms > 1e-12).nonzero().flatten()
    weights = torch.zeros_like(norms)
    if len(moved):
        unit = gram[moved][:, moved] / torch.outer(norms[moved], norms[moved])
        weights[moved] = norms.mean() * min_norm(unit) / norms[moved]
    return weights


def inner_products(updates: Tensor, place: str = "Eq. 8", clients: Sequence[int] | None = None) -> Tensor:
    """Inner products [K, K] of updates [K, n], in float64 on the CPU.

    Raises FedshiftError, naming `place` and the clients, for an update that is not finite.

    clients: numbers of the K clients for error messages, by default 0 .. K - 1
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
    """Mixing weights [K, K] of one layer's parameters `values` [K, n], not updates (Eq. 9).

    Each row is the softmax of cosines / tau; the next values are weights @ values. A zero row of `values`
    maps to itself and has cosine 0 with the others.
    """
    norms = values.norm(dim=1, keepdim=True)
    unit = values / norms.where(norms > 0, 1)
    itself = torch.eye(len(values), dtype=values.dtype, device=values.device)
    return torch.where(norms > 0, torch.softmax(unit @ unit.T / tau, 1), itself)


@equation("FDSE", "Eq. 8, u")
def min_norm(gram: Tensor) -> Tensor:
    """Minimise ||sum_k u_k e_k||^2 over u >= 0, sum u = 1; returns u [K].

    gram [K, K]: inner products of the e_k, float64 on the CPU. The problem is solved as non-negative least
    squares of [E; 1] u = [0; 1], with a factor of gram in place of E. Then u is divided by its sum (Lawson
    and Hanson 1974, chapter 23). If vectors coincide, u is not unique, but sum u_k e_k is.
    """
    from scipy.optimize import nnls

    values, vectors = torch.linalg.eigh(gram)
    factor = values.clamp(min=0).sqrt()[:, None] * vectors.T
    ones = gram.new_ones(1, len(gram))
    goal = torch.cat([gram.new_zeros(len(gram)), gram.new_ones(1)])
    u = torch.from_numpy(nnls(torch.cat([factor, ones]).numpy(), goal.numpy())[0])
    return u / u.sum()
