"""FedDyn: two clients on quadratics against the reference, its fixed point, its states."""

from __future__ import annotations

import pytest
import torch

from fedshift.common.errors import FedshiftError
from fedshift.methods.feddyn import next_model
from fedshift.testing.toys import finish, method, quadratics, small, spec, trained
from tests.reference import Reference
from tests.tolerance import assert_rounded


@pytest.mark.parity
def test_two_rounds_follow_the_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    ref = Reference("fedavg_family_quadratic.json")
    h, c = ref.given("h").tolist(), ref.given("c").tolist()
    place = {"start": ref.given("w0"), "lr": ref.given("eta"), "steps": ref.given("K")}
    for t in range(2):
        chosen = method("feddyn", alpha=ref.given("feddyn_alpha"))
        federation = quadratics(chosen, h, c, **place, rounds=t + 1)
        turns = trained(federation, monkeypatch)
        ref.equals(f"feddyn.{t}.theta_k", torch.cat([row for _, row in turns[-2:]]))
        ref.equals(f"feddyn.{t}.grad_k", federation.state.slots["gk"].flatten())
        ref.equals(f"feddyn.{t}.h", federation.server.slot.h[0])
        ref.equals(f"feddyn.{t}.theta", federation.server.row[0])


def test_the_new_model_by_hand() -> None:
    """Averages 2 and 1 less h / alpha = 0.3 / 0.1 and -0.1 / 0.1."""
    average, h = torch.tensor([2.0, 1.0]), torch.tensor([0.3, -0.1])
    assert next_model(average, h, 0.1).tolist() == pytest.approx([-1, 2])


def test_at_the_fixed_point_the_states_are_the_local_gradients() -> None:
    """h = (1, 2), c = (0, 3): the common optimum is 2, where the gradients are 2 and -2, and the server's h is their mean, 0."""
    federation = finish(quadratics(method("feddyn", alpha=1.0), [1.0, 2.0], [0.0, 3.0], 1.0, 0.3, 10, 40))
    assert federation.server.row.item() == pytest.approx(2, abs=1e-6)
    assert federation.state.slots["gk"].flatten().tolist() == pytest.approx([2, -2], abs=1e-6)
    assert federation.server.slot.h.item() == pytest.approx(0, abs=1e-6)


def test_one_client_is_not_its_own_model() -> None:
    """h moves the average: client .73179, global .73179 + (1 - .73179) * (-1) = .46358."""
    federation = finish(quadratics(method("feddyn", alpha=0.1), [1.0], [0.0], 1.0, 0.1, 3, 1))
    assert federation.server.row.item() == pytest.approx(0.46358)


def test_the_average_is_uniform_whatever_clients_hold() -> None:
    place = [1.0, 2.0], [0.0, 3.0], 1.0, 0.1, 3, 2
    equal, unequal = (finish(quadratics(method("feddyn"), *place, sizes=n)) for n in ([1, 1], [3, 1]))
    assert unequal.server.row.item() == pytest.approx(equal.server.row.item(), abs=1e-12)


def test_clipping_acts_on_the_whole_objective(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gradient 3 at w = 1 is clipped to 0.5; at lr 0.1 two steps move 0.1 whatever alpha."""
    federation = quadratics(method("feddyn", alpha=50.0), [3.0], [0.0], 1.0, 0.1, 2, 1)
    federation.worker.spec = federation.worker.spec.model_copy(
        update={"local": federation.spec.local.model_copy(update={"clip": 0.5})}
    )
    (_, row), *_ = trained(federation, monkeypatch)
    assert row.item() == pytest.approx(1 - 0.05 + 0.1 * min(0.5, 50 * 0.05 - 3 * 0.95), abs=1e-6)


def test_states_under_partial_participation(monkeypatch: pytest.MonkeyPatch) -> None:
    """h by all N clients, the average by those of the round; statistics are plain means; who is away keeps its state."""
    alpha = 0.5
    run = spec(federation={"rounds": 3, "participation": 0.67})
    federation = small(run, method("feddyn", alpha=alpha))
    W, B = federation.layout.W, federation.layout.B
    turns = trained(federation, monkeypatch)
    h, moved = torch.zeros(federation.layout.P), []
    for t in range(3):
        received, rows = turns[2 * t][0], torch.stack([row for _, row in turns[2 * t : 2 * t + 2]])
        h = h - alpha * (rows - received)[:, W].sum(0) / 3
        after = turns[2 * t + 2][0] if t < 2 else federation.server.row
        moved.append((rows - received)[:, W] * alpha / 3)
        parts = torch.cat([rows[:, W] / 2, *moved], 0)
        assert_rounded(after[W], rows[:, W].mean(0) - h / alpha, torch.cat([parts, parts / alpha]))
        assert_rounded(after[B], rows[:, B].mean(0), rows[:, B] / 2)
    assert_rounded(federation.server.slot.h, h, torch.cat(moved))
    assert_rounded(federation.state.slots["gk"].mean(0), h, torch.cat(moved))


def test_the_regulariser_changes_the_first_round(monkeypatch: pytest.MonkeyPatch) -> None:
    run = spec(local={"epochs": 2}, federation={"rounds": 1})
    federation = small(run, method("feddyn", alpha=1.0))
    pulled, free = trained(federation, monkeypatch), trained(small(run, method("fedavg")), monkeypatch)
    for (received, row), (_, other) in zip(pulled, free, strict=True):
        near, far = ((one - received)[federation.layout.W].norm() for one in (row, other))
        assert 0 < near < far


@pytest.mark.parametrize("alpha", [0.0, -1.0])
def test_alpha_must_be_above_0(alpha: float) -> None:
    with pytest.raises(FedshiftError, match="alpha must be above 0"):
        method("feddyn", alpha=alpha)
