"""Three rounds of FedGMA, one of three unequal clients at rest, against the same rounds written out."""

from __future__ import annotations

import pytest
import torch

from fedshift.testing.toys import method, spec
from tests.methods import plain

LOCAL = {"batch": 5, "lr": 0.05, "momentum": 0.9, "epochs": 2, "weight_decay": 1e-2}
TAU, ETA = 0.4, 0.7


@pytest.mark.parametrize("bench_bug", [False, True])
@plain.doubles()
def test_three_rounds(bench_bug: bool) -> None:
    """Signs count the same for all clients, steps by size."""
    f = plain.federation(
        spec(local=LOCAL, federation=plain.PARTIAL), method("fedgma", tau=TAU, eta=ETA, bench_bug=bench_bug)
    )
    G = plain.named(f, f.state.row)
    for t in range(plain.PARTIAL["rounds"]):
        chosen = plain.active(f, t)
        up = [plain.trained(f, G, k, t) for k in chosen]
        mean = plain.average(up, plain.by_size(chosen))
        for name in plain.trainable(G):
            A = torch.stack([torch.sign(P[name] - G[name]) for P in up]).mean(0).abs()
            step = ETA * torch.where(A >= TAU, 1.0, A)
            if bench_bug:
                step = TAU * torch.where(A >= TAU, 1 - A, 0.0)
            mean[name] = G[name] + step * (mean[name] - G[name])
        G = mean
    assert plain.differs(f, G) < 1e-9
