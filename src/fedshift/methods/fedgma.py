"""FedGMA: coordinates on which the clients' updates disagree move less (Tenison et al., "Gradient Masked
Averaging", TMLR 2023).

The mask acts on trainable parameters; statistics are averaged. With tau = 0 and eta = 1 the method is FedAvg
bit for bit. `bench_bug` is what FedDG_Benchmark computes instead (its src/server.py). It subtracts the
agreement from a hard mask, so unanimous coordinates do not move. It also uses the threshold as the server's
step.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from fedshift.federation.method import Method, Server, equation, mean


@dataclass(frozen=True)
class Params:
    """tau: agreement from which a coordinate moves in full; eta: the server's step; bench_bug:
    FedDG_Benchmark's mask and step.
    """

    tau: float = 0.3
    eta: float = 1.0
    bench_bug: bool = False


@equation("FedGMA", "agreement")
def agreement(D: Tensor) -> Tensor:
    """|mean_k sign(D_k)| of updates D [K, P]: [P] in [0, 1]; all clients have equal weight."""
    return D.sign().mean(0).abs()


@equation("FedGMA", "mask")
def mask(A: Tensor, tau: float) -> Tensor:
    """1 where the agreement A [P] reaches tau (A >= tau), else the agreement itself."""
    return torch.where(tau <= A, torch.ones_like(A), A)


@equation("FedGMA", "mask of FedDG_Benchmark", bench_bug=True)
def bench_mask(A: Tensor, tau: float) -> Tensor:
    """FedDG_Benchmark's mask from the agreement A [P]: m - m A with m = 1[A >= tau]."""
    hard = (tau <= A).to(A)
    return hard - hard * A


@equation("FedGMA", "server step")
def next_model(w: Tensor, average: Tensor, step: Tensor) -> Tensor:
    """w + step * sum_k p_k (w_k - w), [P]: average = sum_k p_k w_k; exactly the average at step 1."""
    return w.lerp(average, step)


class FedGMA(Method):
    """w += eta mask * sum_k p_k D_k, with D_k = w_k - w."""

    name = "fedgma"
    Params = Params

    def aggregate(self, S: Server, rows: Tensor, p: Tensor, up: Mapping[str, Tensor]) -> None:
        W, hp = S.layout.W, self.hp
        average, A = mean(rows, p), agreement(rows[:, W] - S.row[W])
        step = hp.tau * bench_mask(A, hp.tau) if hp.bench_bug else hp.eta * mask(A, hp.tau)
        average[W] = next_model(S.row[W], average[W], step)
        S.row.copy_(average)
