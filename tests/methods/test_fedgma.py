"""FedGMA: masks against the reference, and what is masked."""

import pytest
import torch
from torch import Tensor

from fedshift.experiments.protocols import preset
from fedshift.methods.fedgma import agreement, bench_mask, mask, next_model
from fedshift.storage.workspace import Workspace
from fedshift.testing.toys import method, spec
from tests.conftest import ROOT
from tests.methods import plain
from tests.reference import Reference


@pytest.mark.parity
@pytest.mark.parametrize("case", ["tau0.3", "tau0.5", "tau0.7"])
def test_masks_follow_the_reference(case: str) -> None:
    ref = Reference("fedgma.json")
    D, expected = ref.given("deltas"), ref.given(case)
    A = agreement(D)
    m = mask(A, float(case.removeprefix("tau")))
    assert A.tolist() == pytest.approx(expected["agreement"], abs=1e-9)
    assert m.tolist() == pytest.approx(expected["mask"], abs=1e-9)
    moved = next_model(torch.zeros(4).double(), D.mean(0), m)
    assert moved.tolist() == pytest.approx(expected["update"], abs=1e-9)


def test_three_clients_need_a_threshold_above_a_third() -> None:
    """They agree by 1/3 or 1: up to 1/3 every coordinate moves in full, as in FedAvg. Protocol `unified`
    trains three clients.
    """
    A = agreement(torch.randn(3, 1000, generator=torch.Generator().manual_seed(0)))
    assert {round(float(value), 4) for value in A.unique()} == {0.3333, 1.0}
    assert mask(A, type(method("fedgma").hp)().tau).eq(1).all()
    declared = preset(Workspace(ROOT), "fedgma").protocols["unified"]["*"]
    assert mask(A, declared["method"]["params"]["tau"]).min() < 0.34


@pytest.mark.parity
def test_what_the_benchmark_computes() -> None:
    ref = Reference("fedgma.json")
    D, case = ref.given("deltas"), "feddg_benchmark_as_written_tau0p5"
    A = agreement(D)
    ref.equals(f"{case}.agreement", A)
    ref.equals(f"{case}.mask", bench_mask(A, 0.5))
    moved = next_model(torch.zeros(4).double(), D.mean(0), 0.5 * bench_mask(A, 0.5))
    ref.equals(f"{case}.update", moved)


def test_masks_by_hand() -> None:
    """Agreements 1, 1/3 and, where one client stands still, 2/3."""
    A = agreement(torch.tensor([[1.0, 5.0, 2.0], [2.0, 5.0, 2.0], [3.0, -9.0, 0.0]]))
    assert A.tolist() == pytest.approx([1, 1 / 3, 2 / 3])
    assert mask(A, 0.5).tolist() == pytest.approx([1, 1 / 3, 1])
    assert mask(A, 0.0).tolist() == [1, 1, 1]
    assert mask(torch.tensor([0.5]), 0.5).tolist() == [1]
    assert bench_mask(A, 0.5).tolist() == pytest.approx([0, 0, 1 / 3])


# Three rounds of FedGMA, of two or all of three unequal clients, against the same rounds written out.
LOCAL = {"batch": 5, "lr": 0.05, "momentum": 0.9, "epochs": 2, "weight_decay": 1e-2}
ETA = 0.7


@pytest.mark.parametrize(
    ("tau", "participation", "bench_bug"), [(0.4, 0.67, False), (0.4, 1.0, False), (0.3, 1.0, True)]
)
@plain.doubles()
def test_three_rounds(tau: float, participation: float, bench_bug: bool) -> None:
    """Signs count the same for all clients, steps by size. Two clients agree by 0 or 1, which the benchmark's
    mask both stops; three agree by 1/3 or 1.
    """
    run = spec(local=LOCAL, federation={**plain.PARTIAL, "participation": participation})
    f = plain.federation(run, method("fedgma", tau=tau, eta=ETA, bench_bug=bench_bug))
    G, masked = plain.named(f, f.state.row), list[Tensor]()
    for t in range(plain.PARTIAL["rounds"]):
        chosen = plain.active(f, t)
        up = [plain.trained(f, G, k, t) for k in chosen]
        mean = plain.average(up, plain.by_size(chosen))
        for name in plain.trainable(G):
            A = torch.stack([torch.sign(P[name] - G[name]) for P in up]).mean(0).abs()
            step = ETA * torch.where(tau <= A, 1.0, A)
            if bench_bug:
                step = tau * torch.where(tau <= A, 1 - A, 0.0)
            masked.append(step)
            mean[name] = G[name] + step * (mean[name] - G[name])
        G = mean
    assert any(step.any() for step in masked) and plain.differs(f, G) < 1e-9
