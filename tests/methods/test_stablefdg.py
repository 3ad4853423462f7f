"""StableFDG: its draws, options and limits that neither the replay nor the reference covers."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from fedshift.common.registry import get
from fedshift.federation import loop
from fedshift.federation.client import Client
from fedshift.federation.layout import initial
from fedshift.federation.loop import Federation, cross_entropy
from fedshift.federation.method import Method
from fedshift.methods.stablefdg import Params, Steps
from fedshift.methods.stablefdg.attention import partners
from fedshift.methods.stablefdg.styles import any_samples, farthest, information, oversampled, ring, seeds
from fedshift.models.layers.style import style
from fedshift.testing.toys import finish, images, method, small, spec


def maps(*shape: int, seed: int = 6) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def steps(labels: list[int], phi: Tensor | None = None, **hp: Any) -> Steps:
    """Steps 2-5 for a batch with these labels, at a client that received `phi`."""
    down = SimpleNamespace() if phi is None else SimpleNamespace(style=phi)
    client: Any = SimpleNamespace(labels=torch.tensor(labels), down=down, rng=rng())
    return Steps(Params(**{"p": 1.0, **hp}), client, torch.tensor(labels))


def cost(federation: Federation, name: str) -> list[float]:
    return [row["value"] for row in federation.records.rows if row["metric"] == name]


@pytest.mark.parametrize(("clients", "m"), [(2, 1), (3, 1), (10, 1), (10, 3), (3, 5)])
def test_styles_are_dealt_one_to_one_and_never_to_their_owner(clients: int, m: int) -> None:
    seen = set()
    for seed in range(40):
        given = ring(clients, m, rng(seed))
        assert given.shape == (clients, min(m, clients - 1))
        for column in given.T:
            assert column.sort().values.tolist() == list(range(clients))
            assert not column.eq(torch.arange(clients)).any()
        assert all(len(set(row)) == len(row) for row in given.tolist())
        seen |= {int(given[0, 0])}
    assert seen == set(range(1, clients))


def test_farthest_is_the_largest_distance_of_the_whole_information() -> None:
    phi = torch.zeros(4, 4, 1)
    phi[:, 3, 0] = torch.tensor([0.0, 1.0, 5.0, -3.0])
    assert farthest(phi, 1).flatten().tolist() == [2, 2, 3, 2]
    assert farthest(phi, 2).tolist()[0] == [2, 3]


def test_seeds_are_drawn_by_squared_distance() -> None:
    features = torch.tensor([[0.0], [1.0], [3.0]])
    first = torch.tensor([1e-9, 1.0, 1.0])  # 0 wins the first race
    drawn = torch.empty(3000, 3).exponential_(generator=rng())
    second = torch.stack([seeds(features, torch.stack([first, one])) for one in drawn])
    assert second[:, 0].eq(0).all()
    assert second[:, 1].bincount(minlength=3).tolist() == pytest.approx([0, 300, 2700], abs=60)
    starts = torch.stack([seeds(features, one[None]) for one in drawn[:900]])
    assert starts.flatten().bincount(minlength=3).tolist() == pytest.approx([300] * 3, abs=60)


def test_distance_is_to_the_nearest_seed() -> None:
    features = torch.tensor([[0.0], [10.0], [1.0], [6.0]])
    race = torch.tensor([[1e-9, 1.0, 1.0, 1.0], [1.0, 1e-9, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0]])
    assert seeds(features, race).tolist() == [0, 1, 3]  # 6 is 4 away from its nearest, 1 only 1


def test_no_seed_comes_twice() -> None:
    for features in (torch.zeros(6, 2), torch.tensor([[0.0], [0.0], [0.0], [7.0], [7.0], [7.0]])):
        for seed in range(20):
            race = torch.empty(6, 6).exponential_(generator=rng(seed))
            assert seeds(features, race).sort().values.tolist() == list(range(6))


def test_half_of_the_batch_takes_the_received_style() -> None:
    x, phi = maps(9, 2, 4, 4), torch.tensor([[7.0, 8.0], [2.0, 3.0], [0.0, 0.0], [0.0, 0.0]])[None]
    got = steps([0] * 9, phi, shift="random").shift(x)
    moved = [not torch.equal(a, b) for a, b in zip(got, x, strict=True)]
    assert sum(moved) == 5  # B / 2 = 4 stay, bit for bit
    new = style(got[moved], "biased")
    torch.testing.assert_close(new.mu, phi[0, 0].double().expand(5, 2), rtol=1e-5, atol=0)
    torch.testing.assert_close(new.sigma, phi[0, 1].double().expand(5, 2), rtol=1e-5, atol=0)


def test_many_received_styles_are_all_taken() -> None:
    phi = torch.tensor([[1.0, 1.0, 0.0, 0.0], [50.0, 1.0, 0.0, 0.0]])[:, :, None]
    torch.manual_seed(0)
    got = steps([0] * 32, phi).shift(maps(32, 1, 4, 4))
    mu = style(got, "biased").mu[:, 0].round()
    assert {1.0, 50.0} <= set(mu.tolist())


@pytest.mark.parametrize(("size", "added"), [(6, [1, 2, 3]), (3, [0, 1, 2]), (1, [0, 0, 1])])
def test_added_samples_balance_the_classes(size: int, added: list[int]) -> None:
    labels = torch.tensor([0, 0, 0, 1, 1, 2])
    assert labels[oversampled(labels, size, rng())].bincount(minlength=3).tolist() == added


def test_ties_and_sources_are_drawn() -> None:
    labels = torch.tensor([0, 0, 1, 1, 2, 2])
    drawn = [oversampled(labels, 1, rng(seed)).item() for seed in range(60)]
    assert set(drawn) == set(range(6))
    assert set(any_samples(4, 100, rng()).tolist()) == {0, 1, 2, 3}


def test_a_partner_is_the_next_other_image_of_the_class() -> None:
    """Rows 0, 2 and 5 show one image, 1 and 3 another; 4 is a second one of their class, 6 of a third class."""
    labels, source = torch.tensor([0, 1, 0, 1, 1, 0, 2]), torch.tensor([0, 1, 0, 1, 4, 0, 6])
    other, alone = partners(labels, source)
    assert other.tolist() == [0, 4, 2, 4, 1, 5, 6]
    assert alone.tolist() == [True, False, True, False, False, True, True]
    other, alone = partners(labels, torch.arange(7))
    assert other.tolist() == [2, 3, 5, 4, 1, 0, 6]
    assert alone.tolist() == [False] * 6 + [True]


def test_embeddings_and_classifier_start_as_in_the_released_code() -> None:
    """One convolution of 3 d outputs there: normal, variance 2 / (3 d), no bias; the classifier is torch's own linear map."""
    build = get("models", "resnet18")
    model, *_ = initial(lambda: method("stablefdg", d=30).model(build(7, 32)), 0)
    for theta in (model.neck.query, model.neck.key):
        assert theta.weight.std().item() == pytest.approx((2 / 90) ** 0.5, rel=0.02)
        assert theta.bias.eq(0).all()
    bound = 1024**-0.5
    assert model.head.weight.abs().max().item() == pytest.approx(bound, rel=0.01)
    assert model.head.weight.std().item() == pytest.approx(bound / 3**0.5, rel=0.05)


def test_queries_are_ones_own_or_anothers() -> None:
    """Where nobody is alone, no auxiliary batch is asked for: it would need a client."""
    own, other = maps(4, 3), [2, 3, 0, 1]
    used = {"self": own, "cross": own[other], "both": (own + own[other]) / 2}
    for kind, expected in used.items():
        got = method("stablefdg", attention=kind).queries(None, steps([0, 1, 0, 1]), own)
        torch.testing.assert_close(got, expected)


def test_bytes_are_the_model_and_one_style() -> None:
    run = finish(small(spec(), method("stablefdg")))
    phi = 4 * 16 * 4
    assert cost(run, "bytes_up") == [3 * (4 * run.layout.size + phi)] * 2
    assert cost(run, "bytes_down") == [3 * (4 * run.layout.size + phi)] * 2
    three = finish(small(spec(), method("stablefdg", styles=2)))
    assert cost(three, "bytes_down") == [3 * (4 * run.layout.size + 2 * phi)] * 2
    later = finish(small(spec(), method("stablefdg", share_from_round=1)))
    assert cost(later, "bytes_up") == [3 * 4 * run.layout.size, 3 * (4 * run.layout.size + phi)]


@pytest.mark.parametrize(
    ("hp", "clients", "participation"),
    [({}, 1, 1.0), ({}, 3, 0.34), ({"styles": 0}, 3, 1.0), ({"centralized": True}, 3, 1.0)],
)
def test_no_style_arrives(
    hp: dict[str, Any], clients: int, participation: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    train = loop.train

    def spy(self: Client, hooks: Method) -> Tensor:
        assert not hasattr(self.down, "style")
        return train(self, hooks)

    monkeypatch.setattr(loop, "train", spy)
    run = spec(federation={"rounds": 2, "participation": participation})
    made = finish(small(run, method("stablefdg", **hp), clients=clients))
    assert made.state.row.isfinite().all()


@pytest.mark.parametrize(
    ("hp", "sizes"),
    [
        ({"p": 1.0, "positions": ["stage3", "stage4"], "attention": "none"}, {16, 12}),
        ({"p": 1.0, "size": 3}, {11, 9}),
        ({"p": 1.0, "size": 0}, {8, 6}),
        ({"p": 1.0, "positions": []}, {8, 6}),
        ({"p": 1.0, "attention": "convolution"}, {16, 12}),
    ],
)
def test_the_loss_sees_the_enlarged_batch(hp: dict[str, Any], sizes: set[int]) -> None:
    seen: set[int] = set()

    def criterion(logits: Tensor, y: Tensor) -> Tensor:
        assert len(logits) == len(y)
        seen.add(len(y))
        return cross_entropy(logits, y)

    finish(small(spec(federation={"rounds": 1}), method("stablefdg", **hp), criterion=criterion))
    assert seen == sizes


def test_everything_off_is_fedavg_bit_for_bit() -> None:
    local = {"momentum": 0.9, "optimizer_state": "persist", "clip": 5.0}
    run = spec(local=local, federation={"weights": "uniform"})
    ours = finish(small(run, method("stablefdg", p=0.0, attention="none")))
    fedavg = finish(small(run, method("fedavg")))
    assert ours.state.row.equal(fedavg.state.row)
    assert cost(ours, "bytes_up") == cost(fedavg, "bytes_up")


@pytest.mark.parametrize(("hp", "parameters"), [({}, 11_214_467), ({"dead_v": True}, 11_229_859)])
def test_parameters_of_resnet18(hp: dict[str, Any], parameters: int) -> None:
    model = method("stablefdg", **hp).model(get("models", "resnet18")(7, 64))
    assert sum(p.numel() for p in model.parameters()) == parameters


@pytest.mark.parametrize("shift", ["seeds", "random", "official"])
def test_a_batch_of_one_without_batch_normalisation(shift: str) -> None:
    """12 images without contrast: 11 and 1; one client has a single image."""
    samples, clients, target = images(3)
    samples.pixels.fill_(100)
    clients[0] = replace(clients[0], train=clients[0].train[:1])
    run, model = spec(local={"batch": 11, "lr": 0.01}), get("models", "hfedf_cnn")
    chosen = method("stablefdg", p=1.0, shift=shift)
    made = Federation(run, chosen, lambda: model(2, 32), samples, clients, target)
    assert finish(made).state.row.isfinite().all()


def test_the_information_of_one_sample_has_no_variance() -> None:
    one = style(maps(1, 3, 4, 4))
    for form in ("biased", "official"):
        assert information(one, form).tolist() == [
            one.mu[0].tolist(),
            one.sigma[0].tolist(),
            [0.0] * 3,
            [0.0] * 3,
        ]
    many = style(maps(4, 3, 4, 4))
    torch.testing.assert_close(information(many, "official")[2], many.mu.var(0) + 1e-6)


def test_attention_by_convolution_is_as_wide_as_queries_and_keys_together() -> None:
    widths = {}
    for kind in ("both", "convolution"):
        model = method("stablefdg", d=30, attention=kind).model(get("models", "digits_cnn")(2, 32))
        widths[kind] = [
            part.out_channels for part in model.neck.modules() if isinstance(part, torch.nn.Conv2d)
        ]
    assert widths == {"both": [30, 30], "convolution": [60, 1]}
