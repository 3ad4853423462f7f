"""The point of least norm in a convex hull."""

from __future__ import annotations

import torch
from torch import Tensor

from fedshift.common.equations import equation


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
