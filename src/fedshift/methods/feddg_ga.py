"""FedDG-GA: aggregation weights follow the generalisation gaps of the clients (Zhang et al., CVPR 2023;
"FedGA" in FedRD's tables).

A client's gap of round t is F(global model after the aggregation of t) - F(its own model before it), on its
validation split. It is measured at the beginning of round t + 1, when the client receives the aggregated
model. It changes the weights for the aggregation of t + 1. The released code has the same order, but measures
at the end of t; the gap of the last round is not used.

The code's 1/3 is 1 / K. The code's default metric is `acc`; the paper's text and this default are `loss`. The
paper has full participation. Here, a client that was away uses the last model that it trained, and the
weights of absent clients do not change.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from fedshift.federation.method import Client, Method, Server, Slot, equation, mean


@dataclass(frozen=True)
class Params:
    """step: the first step is step (1 + 1 / T), then it falls linearly; fair: F is the loss or the error
    rate; ga_center: subtract the mean from the gaps.
    """

    step: float = 0.2
    fair: Literal["loss", "acc"] = "loss"
    ga_center: bool = False


@equation("FedDG-GA", "step schedule of the code")
def step_size(step: float, t: int, T: int) -> float:
    """The step for the gaps of round t, from 0, of T: step - (t - 1) step / T."""
    return step - (t - 1) * step / T


@equation("FedDG-GA", "generalization adjustment")
def adjusted(p: Tensor, gap: Tensor, step: float, center: bool = False) -> Tensor:
    """p + step / K gap / max|gap|, cut to [0, 1] and normalised to sum 1; p, gap [K] to [K].

    Gaps of 0 change nothing. If no weight is above 0, all weights are equal.

    - gap: F(global model after the aggregation) - F(the client's own before it), F a loss or error rate
    - center: whether to subtract the mean of the gaps first
    """
    if center:
        gap = gap - gap[0]  # equal gaps are 0 then, not the rounding error of their mean
        gap = gap - gap.mean()
    widest = gap.abs().max()
    direction = torch.where(widest > 0, gap / widest, gap)
    return normalised((p + step / len(p) * direction).clamp(0, 1))


def normalised(p: Tensor) -> Tensor:
    """p [K] scaled to sum 1; equal parts if the sum is 0."""
    total = p.sum()
    return torch.where(total > 0, p / total, torch.full_like(p, 1 / len(p)))


class FedDGGA(Method):
    """FedAvg with adjusted weights, which start equal."""

    name = "feddg_ga"
    weighs = True
    Params = Params
    slots = (
        Slot("p", lambda L, N: (N,), "server", init=lambda L, N, rng: torch.full((N,), 1 / N, dtype=L.dtype)),
        Slot("before", lambda L, N: (), "client"),
    )
    logs = {
        "gap": "F(aggregated) - F(own) of the last round, on validation data",
        "weights": "of the clients' models in the average",
    }

    def begin(self, C: Client) -> Mapping[str, Tensor]:
        """The gap of the last round: the received model is the aggregated one. On a client's first visit the
        gap is 0.
        """
        after = self._measure(C)
        return {"gap": after - C.slot.before if C.visits else torch.zeros_like(after)}

    def end(self, C: Client) -> None:
        C.slot.before.copy_(self._measure(C))

    def aggregate(self, S: Server, rows: Tensor, p: Tensor, up: Mapping[str, Tensor]) -> None:
        present = S.slot.p[S.active]
        step = step_size(self.hp.step, S.t - 1, S.T)
        weights = adjusted(normalised(present), up["gap"].to(present), step, self.hp.ga_center)
        S.log("gap", up["gap"])
        S.log("weights", weights)
        S.slot.p[S.active] = weights * present.sum()
        S.row.copy_(mean(rows, weights))

    def _measure(self, C: Client) -> Tensor:
        """F of the client's current model: its loss or error rate on validation data."""
        error = lambda x, y: (C.model(x).logits.argmax(1) != y).float().mean()  # noqa: E731
        return C.mean("val", error if self.hp.fair == "acc" else None)
