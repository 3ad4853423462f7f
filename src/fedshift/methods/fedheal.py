"""FedHEAL: clients send what they have moved in the same direction before, and clients that move far have
more weight (Chen et al., CVPR 2024).

Masks and updates cover statistics too; distances cover the trainable tensors alone (released code). As there,
a client's weight starts at one over the number of clients in a round. Its distance is divided by the sum of
the last distances of all clients that have trained so far, present or not.

A client's history counts its own rounds, which deviates from the code. The code counts all rounds and has no
history for a client that was absent in the first one. Under full participation both are the same. FLGo's port
starts that count at 1. tau below 0 with beta = 0 is uniform FedAvg.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from fedshift.federation.method import Method, Server, Slot, equation, mean


@dataclass(frozen=True)
class Params:
    """tau: least part of a client's rounds with this sign for an update to count (0.2: FDSE's, on
    Office-Caltech10; FedHEAL's code has 0.3); beta: momentum of the weights.
    """

    tau: Annotated[float, Field(ge=-1)] = 0.2
    beta: float = 0.4


@equation("FedHEAL", "parameter consistency")
def consistent(H: Tensor, D: Tensor, seen: Tensor, tau: float) -> Tensor:
    """Which coordinates count, bool [K, n]; in a client's first round all do.

    H [K, n]: the fraction of the client's `seen` [K] rounds with D >= 0. D [K, n]: this round's updates.
    """
    q = torch.where(D >= 0, H, 1 - H)
    return (q > tau) | (seen == 0)[:, None]


@equation("FedHEAL", "sign history")
def history(H: Tensor, D: Tensor, seen: Tensor) -> Tensor:
    """H [K, n] with this round's signs: the mean over `seen` [K] + 1 rounds."""
    n = seen[:, None]
    return (H * n + (D >= 0).to(H)) / (n + 1)


@equation("FedHEAL", "distance")
def distance(D: Sequence[Tensor]) -> Tensor:
    """How far each client moved, [K]: the sum over trainable tensors of the norms of masked updates [K,
    ..].
    """
    return torch.stack([update.flatten(1).norm(dim=1) for update in D]).sum(0)


@equation("FedHEAL", "weight momentum")
def momentum(dp: Tensor, distance: Tensor, total: Tensor, beta: float) -> Tensor:
    """The change of the weights p: (1 - beta) dp + beta distance / total; dp, distance [K] to [K].

    total: the sum of the last distances of all clients that have trained so far; at 0 the last term is 0.
    """
    part = torch.where(total > 0, distance / total, torch.zeros_like(distance))
    return (1 - beta) * dp + beta * part


@equation("FedHEAL", "aggregation")
def aggregated(row: Tensor, rows: Tensor, p: Tensor, masks: Tensor) -> Tensor:
    """row + sum_k a_k masks_k (rows_k - row), [n]; row [n], rows, masks [K, n], p [K] of any sum.

    For each coordinate, a is p normalised over the clients for which it counts. A coordinate that counts for
    no client does not change.
    """
    counted = p[:, None] * masks
    total = counted.sum(0)
    parts = counted / total.clamp_min(torch.finfo(total.dtype).tiny)
    return torch.where(total > 0, mean(rows, parts), row)


class FedHEAL(Method):
    """FedAvg with masks; the server stores for each client H, rounds seen, last distance, weight p and its
    change dp.
    """

    name = "fedheal"
    version = 2
    weighs = True
    Params = Params
    slots = (
        Slot("H", lambda L, N: (N, L.size), "server"),
        Slot("seen", lambda L, N: (N,), "server"),
        Slot("distance", lambda L, N: (N,), "server"),
        Slot("p", lambda L, N: (N,), "server"),
        Slot("dp", lambda L, N: (N,), "server"),
    )
    logs = {"weights": "p_k over their sum, before masks: weights of the average"}

    def aggregate(self, S: Server, rows: Tensor, p: Tensor, up: Mapping[str, Tensor]) -> None:
        k, slot = S.active, S.slot
        D, H, seen = rows - S.row, slot.H[k], slot.seen[k]
        masks = consistent(H, D, seen, self.hp.tau)
        slot.H[k], slot.seen[k] = history(H, D, seen), seen + 1
        trainable = [entry.slice for entry in S.layout.entries if entry.offset < S.layout.P]
        slot.distance[k] = distance([(D * masks)[:, at] for at in trainable])
        slot.dp[k] = momentum(slot.dp[k], slot.distance[k], slot.distance.sum(), self.hp.beta)
        slot.p[k] = torch.where(seen > 0, slot.p[k], 1 / len(k)) + slot.dp[k]
        weights = slot.p[k] / slot.p[k].sum()
        S.log("weights", weights)
        S.row.copy_(aggregated(S.row, rows, weights, masks))
