"""DSU against stored noise, its limits, and where it acts."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from fedshift.common.registry import get
from fedshift.methods import dsu as module
from fedshift.methods.dsu import Uncertainty, dsu
from fedshift.models.layers.style import style
from fedshift.testing.toys import finish, method, small, spec
from tests.reference import Reference

EXCEPTIONS: dict[str, dict[str, str]] = {}


def maps(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(4))


@pytest.mark.parity
def test_stored_noise() -> None:
    ref = Reference("mixstyle_dsu.npz")
    got = dsu(ref.given("x"), torch.stack([ref.given("noise_mu"), ref.given("noise_sigma")]))
    ref.equals("dsu_eq", got)
    ref.equals("dsu_official", got)


def test_no_noise_is_the_identity() -> None:
    x = maps(3, 4, 5, 5)
    assert (dsu(x, torch.zeros(2, 3, 4)) - x).abs().max() < 1e-12


def test_identical_samples_move_by_the_epsilon_alone() -> None:
    x = maps(1, 2, 5, 5).repeat(4, 1, 1, 1)
    moved, before = style(dsu(x, torch.ones(2, 4, 2))), style(x)
    torch.testing.assert_close(moved.mu - before.mu, torch.full((4, 2), 1e-3, dtype=torch.float64))
    torch.testing.assert_close(
        moved.sigma - before.sigma, torch.full((4, 2), 1e-3, dtype=torch.float64), rtol=1e-4, atol=0
    )


def test_noise_is_scaled_by_the_spread_over_the_batch() -> None:
    x = maps(1, 1, 3, 3).repeat(3, 2, 1, 1)
    x[:, 0] += torch.tensor([0.0, 1.0, 2.0])[:, None, None]  # channel 0: means spread with variance 1
    moved = style(dsu(x, torch.ones(2, 3, 2))).mu - style(x).mu
    assert moved[:, 0].tolist() == pytest.approx([1.0] * 3, abs=1e-5)
    assert moved[:, 1].tolist() == pytest.approx([1e-3] * 3, abs=1e-9)


def test_styles_are_not_constants_for_the_gradient() -> None:
    x, noise = maps(2, 3, 4, 4).requires_grad_(), maps(2, 2, 3)
    (gradient,) = torch.autograd.grad(dsu(x, noise).square().sum(), x)
    assert torch.autograd.gradcheck(lambda z: dsu(z, noise), x)
    own = style(x.detach())
    constant = (
        dsu(x.detach(), noise) * 2 * (style(dsu(x.detach(), noise)).sigma / own.sigma)[:, :, None, None]
    )
    assert not torch.allclose(gradient, constant)


def test_identity_in_evaluation() -> None:
    x, layer = maps(2, 3, 4, 4), Uncertainty(1.0)
    assert not torch.equal(layer(x), x)
    assert layer.eval()(x) is x


def test_positions_and_names() -> None:
    base = get("models", "resnet18")(7, 32)
    names = [name for name, _ in base.named_parameters()]
    made = method("dsu").model(get("models", "resnet18")(7, 32))
    assert [name for name, _ in made.named_parameters()] == names
    assert list(made.stages["stem"]._modules) == ["0", "dsu", "1", "2", "3"]
    stages = ["stem", "stage1", "stage2", "stage3", "stage4"]
    assert list(made.stages) == [name for stage in stages for name in (stage, f"{stage}_dsu")]
    assert sum(isinstance(m, Uncertainty) for m in made.modules()) == 6
    three = method("dsu", stages=["stage1", "stage2", "stage3"]).model(get("models", "resnet18")(7, 32))
    assert [name for name in three.stages if "dsu" in name] == ["stage1_dsu", "stage2_dsu", "stage3_dsu"]
    assert not any(isinstance(m, Uncertainty) for m in three.stages["stem"].modules())
    digits = method("dsu").model(get("models", "digits_cnn")(7, 32))
    assert sum(isinstance(m, Uncertainty) for m in digits.modules()) == 4
    assert all(type(m) is nn.BatchNorm2d for name, m in made.named_modules() if name == "stages.stem.1")


def test_probability_zero_is_fedavg_bit_for_bit() -> None:
    run = spec(local={"momentum": 0.9})
    ours, fedavg = finish(small(run, method("dsu", p=0.0))), finish(small(run, method("fedavg")))
    assert ours.state.row.equal(fedavg.state.row)


def test_it_acts_at_half_of_the_places_in_training_only(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def spy(x: Tensor, noise: Tensor) -> Tensor:
        assert noise.shape == (2, *x.shape[:2])
        assert noise.std().item() == pytest.approx(1, abs=0.4)
        seen.append(len(x))
        return dsu(x, noise)

    monkeypatch.setattr(module, "dsu", spy)
    finish(small(spec(local={"epochs": 5}, federation={"rounds": 4}), method("dsu")))
    places = 4 * 4 * 5 * (2 + 1 + 2)  # stages, rounds, epochs, the clients' batches
    assert abs(len(seen) - places / 2) < 4 * (places / 4) ** 0.5
    assert set(seen) == {8, 6}  # of the training batches


def test_centralized_is_one_client_with_all_data() -> None:
    federation = finish(small(spec(), method("dsu", centralized=True)))
    assert len(federation.clients) == 1
    assert len(federation.clients[0].train) == 36
    assert federation.method.optimizer_state == "persist"
