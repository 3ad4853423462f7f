"""StableFDG: reference vectors, each step by hand, the order of its round, its limits and its counts."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from fedshift.experiments import expand, load
from fedshift.federation.batches import participants
from fedshift.federation.local import Client
from fedshift.federation.loop import Federation, cross_entropy
from fedshift.federation.network import begin
from fedshift.methods.stablefdg import Params, Steps
from fedshift.models.layers.attention import Highlighter, attention, highlighted, partners
from fedshift.models.layers.exploration import (
    any_samples,
    centres,
    explored,
    farthest,
    information,
    oversampled,
    received,
    ring,
    seeds,
)
from fedshift.models.layers.insert import channels
from fedshift.models.layers.pooling import GlobalAverage
from fedshift.models.layers.style import Style, adain, style
from fedshift.registry import get
from tests.conftest import ROOT
from tests.federation.toys import finish, images, method, small, spec
from tests.reference import Reference

EXCEPTIONS: dict[str, dict[str, str]] = {}


def maps(*shape: int, seed: int = 6) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def steps(labels: list[int], phi: Tensor | None = None, **hp: Any) -> Steps:
    """Steps 2-5 for a batch with these labels, at a client that received `phi`."""
    down = SimpleNamespace() if phi is None else SimpleNamespace(style=phi)
    client: Any = SimpleNamespace(labels=torch.tensor(labels), down=down, rng=rng())
    return Steps(Params(**{"p": 1.0, **hp}), client, torch.tensor(labels))


# ---- reference vectors


@pytest.mark.parity
def test_style_information() -> None:
    ref = Reference("stablefdg.json")
    x = ref.given("style.feat")
    biased, official = style(x, "biased"), style(x, "official")
    ref.equals("style.mu", biased.mu)
    ref.equals("style.sigma_biased_eq1", biased.sigma)
    ref.equals("style.sigma_unbiased_eps_official", official.sigma)
    phi = information(biased, "biased")
    for name, row in zip(("mu_n", "sigma_n", "Sigma_mu_eq2", "Sigma_sigma_eq2"), phi, strict=True):
        ref.equals(f"style.{name}", row)
    ref.equals("style.official_style_sqrt_mu", information(official, "official")[2].sqrt())


@pytest.mark.parity
def test_exploration() -> None:
    ref = Reference("stablefdg.json")
    x, source = ref.given("style.feat"), torch.tensor([0, 1, 2, 0, 1, 2])
    own = style(x, "biased")
    target = explored(own, source, ref.given("exploration.alpha"))
    ref.equals("exploration.mu_new", target.mu[3:])
    ref.equals("exploration.sigma_new", target.sigma[3:])
    ref.equals("exploration.x_new", adain(x[source], own.of(source), target)[3:])
    same = adain(x[source], own.of(source), explored(own, source, 0.0))
    ref.equals("exploration.alpha0_is_identity", bool((same - x[source]).abs().max() < 1e-12))


@pytest.mark.parity
def test_oversampling_counts() -> None:
    ref = Reference("stablefdg.json")
    for case in ref.keys("oversampling_counts"):
        counts, size = case.split(" size")[0], int(case.split(" size")[1].split()[0])
        counts = [int(count) for count in counts.split(",")]
        labels = torch.arange(3).repeat_interleave(torch.tensor(counts))
        got = labels[oversampled(labels, size, rng())].bincount(minlength=3).tolist()
        given = [ref.given(f"oversampling_counts.{case}.{name}") for name in "abc"]
        totals = (sorted(map(sum, zip(counts, one, strict=True))) for one in (got, given))
        assert next(totals) == next(totals)  # which of equal classes gets the last ones is drawn
        assert sum(got) == size


@pytest.mark.parity
def test_length_of_the_style_vector() -> None:
    ref = Reference("stablefdg.json")
    width = channels(get("models", "resnet18")(7, 32))["stage1"]
    styles = Style(*torch.ones(2, 3, width))
    assert sum(one.shape[1] for one in styles) == ref.given("style_vector_len.mu_sigma_resnet18_layer1")
    assert information(styles, "biased").numel() == ref.given("style_vector_len.full_phi")


@pytest.mark.parity
def test_attention_is_the_released_modules() -> None:
    ref = Reference("stablefdg_attention.npz")
    z, labels = ref.given("z"), ref.given("labels")
    weight, bias = ref.given("qkv_weight"), ref.given("qkv_bias")
    other, alone = partners(labels)
    assert not alone.any()

    def made(similarity: Any) -> Highlighter:
        neck = Highlighter(GlobalAverage(), 4, 3, similarity).double()
        for place, convolution in enumerate((neck.query, neck.key)):
            convolution.weight.data = weight[3 * place : 3 * place + 3]
            convolution.bias.data = bias[3 * place : 3 * place + 3]
        return neck

    both: Callable[[Tensor], Tensor] = lambda q: (q[other] + q) / 2  # noqa: E731
    cosine, dot = made("cosine"), made("dot")
    ref.equals("official_train", cosine(z, both))
    ref.equals("official_eval", cosine(z))
    ref.equals("eq8_cosine_train", cosine(z, both)[:, 4:])
    ref.equals("eq8_dot_train", dot(z, both)[:, 4:])
    ref.equals("eq6_dot_train", dot(z, lambda q: q[other])[:, 4:])
    ref.equals("selfattn_dot_eval", dot(z)[:, 4:])


@pytest.mark.parity
def test_released_style_insertion_keeps_content_and_shifts_the_last_16() -> None:
    """Its random numbers are not stored: content of all rows, and whose style the last 16 have."""
    ref = Reference("stablefdg_style_insert_official.npz")
    x, y = ref.given("x"), ref.given("y")
    own, new = style(x), style(y)
    assert (adain(x, own, new) - y).abs().max() < 2e-4
    mean, deviation = ref.given("style_mean").chunk(2), ref.given("style_std").chunk(2)
    for got, centre, spread in zip(new, mean, deviation, strict=True):
        noise = (got[16:] - centre) / spread
        inside = got[16:] > 1e-2  # sigma was cut at 0
        assert noise[inside].abs().max() < 5
        assert noise[inside].std().item() == pytest.approx(1, abs=0.15)


# ---- Step 1


def test_information_is_means_and_variances_over_samples() -> None:
    styles = Style(torch.tensor([[0.0], [4.0]]), torch.tensor([[1.0], [3.0]]))
    assert information(styles, "biased").flatten().tolist() == [2.0, 2.0, 4.0, 1.0]
    assert information(styles, "official").flatten().tolist() == pytest.approx([2.0, 2.0, 8.0, 2.0], abs=1e-5)


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


# ---- Step 2


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
    assert seeds(features, race).tolist() == [
        0,
        1,
        3,
    ]  # 6 is 4 away from its nearest, 1 only 1, though 9 from the last


def test_no_seed_comes_twice() -> None:
    for features in (torch.zeros(6, 2), torch.tensor([[0.0], [0.0], [0.0], [7.0], [7.0], [7.0]])):
        for seed in range(20):
            race = torch.empty(6, 6).exponential_(generator=rng(seed))
            assert seeds(features, race).sort().values.tolist() == list(range(6))


def test_received_styles() -> None:
    phi = torch.tensor([[1.0, 2.0, 4.0, 9.0], [10.0, 20.0, 0.0, 0.0]])[:, :, None]
    new = received(
        phi, torch.tensor([0, 0, 1]), torch.tensor([[[1.0], [0.0], [5.0]], [[1.0], [-2.0], [5.0]]])
    )
    assert new.mu.flatten().tolist() == [3.0, 1.0, 10.0]
    assert new.sigma.flatten().tolist() == [5.0, 0.0, 20.0]  # 2 - 2 * 3 is cut at 0


@pytest.mark.parametrize("shift", ["seeds", "random"])
def test_half_of_the_batch_takes_the_received_style(shift: str) -> None:
    x, phi = maps(9, 2, 4, 4), torch.tensor([[7.0, 8.0], [2.0, 3.0], [0.0, 0.0], [0.0, 0.0]])[None]
    got = steps([0] * 9, phi, shift=shift).shift(x)
    moved = [not torch.equal(a, b) for a, b in zip(got, x, strict=True)]
    assert sum(moved) == 5  # B / 2 = 4 stay, bit for bit
    new = style(got[moved], "biased")
    torch.testing.assert_close(new.mu, phi[0, 0].double().expand(5, 2), rtol=1e-5, atol=0)
    torch.testing.assert_close(new.sigma, phi[0, 1].double().expand(5, 2), rtol=1e-5, atol=0)


def test_shift_by_seeds_prefers_distant_styles_to_stay() -> None:
    x = maps(1, 1, 4, 4).repeat(8, 1, 1, 1)
    x[3] += 100
    for seed in range(10):
        torch.manual_seed(seed)
        phi = torch.tensor([1.0, 1.0, 0.0, 0.0])[None, :, None]
        assert torch.equal(steps([0] * 8, phi).shift(x)[3], x[3])


def test_no_gradient_passes_through_the_styles_of_step_2() -> None:
    x, phi = maps(4, 2, 4, 4).requires_grad_(), torch.ones(1, 4, 2)
    torch.manual_seed(0)
    got = steps([0] * 4, phi).shift(x)
    (gradient,) = torch.autograd.grad(got.sum(), x)
    scale = style(got, "biased").sigma / style(x, "biased").sigma
    torch.testing.assert_close(gradient, scale[:, :, None, None].expand_as(x), rtol=1e-5, atol=1e-5)


def test_released_shift_moves_the_last_half_and_centres_the_rest() -> None:
    x, phi = maps(6, 1, 4, 4), torch.tensor([5.0, 2.0, 0.0, 0.0])[None, :, None]
    x[0] = x[1] = x[2]  # three equal ones
    x[3] = x[4] = x[5] = 10 * x[3] + 100
    torch.manual_seed(1)
    new = style(steps([0] * 6, phi, shift="official").shift(x), "biased")
    assert new.mu[3:, 0].tolist() == pytest.approx([5.0] * 3)
    known = {round(mu, 6) for mu in style(x, "biased").mu[:, 0].tolist()}
    assert {round(mu, 6) for mu in new.mu[:3, 0].tolist()} <= known


def test_centres_are_means_of_the_nearest() -> None:
    features = torch.tensor([[0.0], [1.0], [10.0], [14.0]])
    assert centres(features, torch.tensor([1, 3])).flatten().tolist() == [0.5, 12.0]
    assert centres(torch.zeros(3, 1), torch.tensor([0, 2])).flatten().tolist() == [0.0, 0.0]


def test_many_received_styles_are_all_taken() -> None:
    phi = torch.tensor([[1.0, 1.0, 0.0, 0.0], [50.0, 1.0, 0.0, 0.0]])[:, :, None]
    torch.manual_seed(0)
    got = steps([0] * 32, phi).shift(maps(32, 1, 4, 4))
    mu = style(got, "biased").mu[:, 0].round()
    assert {1.0, 50.0} <= set(mu.tolist())


# ---- Steps 3 to 5


@pytest.mark.parametrize(
    ("counts", "size", "added"),
    [((3, 2, 1), 6, [1, 2, 3]), ((3, 2, 1), 3, [0, 1, 2]), ((3, 2, 1), 1, [0, 0, 1]), ((4,), 3, [3])],
)
def test_added_samples_balance_the_classes(counts: tuple[int, ...], size: int, added: list[int]) -> None:
    labels = torch.arange(len(counts)).repeat_interleave(torch.tensor(counts))
    assert labels[oversampled(labels, size, rng())].bincount(minlength=len(counts)).tolist() == added


def test_ties_and_sources_are_drawn() -> None:
    labels = torch.tensor([0, 0, 1, 1, 2, 2])
    drawn = [oversampled(labels, 1, rng(seed)).item() for seed in range(60)]
    assert set(drawn) == set(range(6))
    assert set(any_samples(4, 100, rng()).tolist()) == {0, 1, 2, 3}


def test_exploration_goes_away_from_the_batch() -> None:
    own = Style(torch.tensor([[0.0], [2.0]]), torch.tensor([[1.0], [3.0]]))
    got = explored(own, torch.tensor([0, 1, 1, 1]), 3.0)
    assert got.mu.flatten().tolist() == [
        0.0,
        2.0,
        5.0,
        5.0,
    ]  # 2 + 3 (2 - 1): the centre leaves added ones out
    assert got.sigma.flatten().tolist() == [1.0, 3.0, 6.0, 6.0]


def test_a_batch_grows_once_with_its_labels() -> None:
    made = steps([0, 0, 0, 1, 1, 2])
    x = made.explore(maps(6, 2, 4, 4))
    assert len(x) == len(made.y) == len(made.labels) == 12
    assert made.labels.bincount().tolist() == [4, 4, 4]
    assert made.y.equal(made.labels)
    assert len(made.explore(x)) == 12
    assert len(steps([0, 1], size=5).explore(maps(2, 2, 4, 4))) == 7
    assert len(steps([0, 1], size=0).explore(maps(2, 2, 4, 4))) == 2
    assert len(steps([0, 1], p=0.0).explore(maps(2, 2, 4, 4))) == 2


@pytest.mark.parametrize("size", [None, 0])
def test_exploring_and_mixing_are_one_normalisation(
    size: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """x_hat from the style before, with its gradient; targets without."""
    x, labels = maps(4, 2, 4, 4).requires_grad_(), [0, 1, 0, 1]
    source = torch.tensor([0, 1, 2, 3, 2, 2, 1, 0])[: 8 if size is None else 4]
    share, partner = (
        torch.rand(len(source), dtype=torch.float64, generator=rng()),
        torch.randperm(len(source)),
    )
    monkeypatch.setattr("fedshift.methods.stablefdg.shares", lambda *_: share)
    monkeypatch.setattr("fedshift.methods.stablefdg.oversampled", lambda *_: source[4:])
    monkeypatch.setattr(torch, "randperm", lambda *_, **__: partner)
    got = steps(labels, size=size).explore(x)
    mu, sigma = x.mean((2, 3)), x.var((2, 3), correction=0).sqrt()
    hat = ((x - mu[:, :, None, None]) / sigma[:, :, None, None])[source]
    added = source[4:]
    targets = []
    for one in (mu.detach(), sigma.detach()):
        new = torch.cat([one, one[added] + 3 * (one[added] - one.mean(0))])
        targets.append(share[:, None] * new + (1 - share[:, None]) * new[partner])
    expected = hat * targets[1][:, :, None, None] + targets[0][:, :, None, None]
    torch.testing.assert_close(got, expected)
    weights = maps(*got.shape, seed=9)
    ours, theirs = (torch.autograd.grad((out * weights).sum(), x)[0] for out in (got, expected))
    torch.testing.assert_close(ours, theirs)
    assert ours.abs().max() > 1e-3


# ---- attention in training


def federation(labels: list[int], **hp: Any) -> tuple[Federation, Tensor]:
    """One client whose training samples have these labels, in one batch, without Steps 1-5; and its images as the network sees them."""
    samples, clients, target = images(1, each=len(labels) * 5 // 3)
    samples.host_labels[: len(labels)] = samples.labels[: len(labels)] = torch.tensor(labels)
    run = spec(local={"batch": len(labels)}, federation={"rounds": 1})
    model = get("models", "digits_cnn")
    made = Federation(run, method("stablefdg", p=0.0, **hp), lambda: model(3, 32), samples, clients, target)
    return made, clients[0].train


def brute(
    model: Any, x: Tensor, y: Tensor, kind: str, single: str = "mixed", aux: Tensor | None = None
) -> Tensor:
    """Eq. 6-8 sample by sample with the whole similarity matrix; aux: mean queries by class for samples alone in theirs."""
    z = model.body(x)
    k, q = (F.normalize(one(z).flatten(2), dim=1) for one in (model.neck.key, model.neck.query))
    features = []
    for i, label in enumerate(y.tolist()):
        same = [j for j in range(len(y)) if y[j] == label]
        j = same[(same.index(i) + 1) % len(same)]
        theirs = q[j] if j != i or aux is None else aux[label][:, None].expand_as(q[j])
        query = {"self": q[i], "cross": theirs, "both": (theirs + q[i]) / 2}[kind]
        if j == i and single == "cross" and kind == "both":
            query = theirs
        scores = (query.T @ k[i]).mean(0).softmax(0)
        features.append(torch.cat([z[i].mean((1, 2)), z[i].flatten(1) @ scores]))
    return cross_entropy(model.head(torch.stack(features)), y)


@pytest.mark.parametrize("kind", ["both", "self", "cross"])
@pytest.mark.parametrize("single", ["mixed", "cross"])
def test_training_queries(kind: str, single: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Classes of three, two and one sample; the one alone asks the auxiliary batch."""
    made, _ = federation([0, 1, 0, 2, 1, 0], attention=kind, singletons=single)
    seen: list[tuple[Tensor, Tensor]] = []
    asked: list[int] = []
    own_images = Client.one_per_class

    def once(self: Client) -> tuple[Tensor, Tensor]:
        got = own_images(self)
        asked.append(len(got[1]))
        torch.testing.assert_close(got[1], torch.arange(3))
        aux.append(got[0])
        return got

    def loss(self: Any, C: Client, x: Tensor, y: Tensor) -> Tensor:
        expected_aux = None
        got = original(self, C, x, y)
        if aux:
            z = C.model.body(aux[0])
            expected_aux = F.normalize(C.model.neck.query(z).flatten(2), dim=1).mean(2)
        seen.append((got, brute(C.model, x, y, kind, single, expected_aux)))
        return got

    aux: list[Tensor] = []
    original = type(made.method).loss
    monkeypatch.setattr(Client, "one_per_class", once)
    monkeypatch.setattr(type(made.method), "loss", loss)
    finish(made)
    assert len(seen) == 1
    torch.testing.assert_close(*seen[0])
    assert asked == ([] if kind == "self" else [3])


def test_no_auxiliary_batch_without_a_sample_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    made, _ = federation([0, 1, 0, 1, 1, 0])
    monkeypatch.setattr(Client, "one_per_class", lambda self: pytest.fail("not needed"))
    finish(made)


def test_attention_trains() -> None:
    made, _ = federation([0, 1, 0, 2, 1, 0])
    before = {name: value.clone() for name, value in made.layout.named(made.state.row).items()}
    after = made.layout.named(finish(made).state.row)
    for name in ("neck.query.weight", "neck.key.weight", "head.weight"):
        assert not after[name].equal(before[name])


def test_evaluation_is_self_attention_with_doubled_features() -> None:
    made, _ = federation([0, 1, 0, 2, 1, 0])
    model = made.turn.networks["first"].bind(made.state.row).model.eval()
    x = torch.randn(5, 3, 32, 32, generator=rng())
    z, out = model.body(x), model(x)
    assert out.feature.shape == (5, 128)
    torch.testing.assert_close(out.feature[:, :64], z.mean((2, 3)))
    k, q = (F.normalize(one(z).flatten(2), dim=1) for one in (model.neck.key, model.neck.query))
    torch.testing.assert_close(out.feature[:, 64:], highlighted(attention(q.mean(2), k), z))


# ---- the round


def test_styles_travel_before_anybody_trains(monkeypatch: pytest.MonkeyPatch) -> None:
    """Order of a round: received model, style of its stage 1, another's style, training from the received model."""
    events: list[str] = []
    taken: list[Tensor] = []
    kind = type(method("stablefdg"))
    begin_, exchange, train = kind.begin, kind.exchange, Client.train

    def begun(self: Any, C: Client) -> Any:
        events.append(f"begin {C.k}")
        assert C.model.training
        assert C.row.equal(C.received)
        batches = list(C.batches())
        z = torch.cat([C.model.stages["stage1"](x) for x, _ in batches])
        mu, sigma = z.mean((2, 3)), (z.var((2, 3), correction=0) + 1e-12).sqrt()
        expected = torch.stack(
            [mu.mean(0), sigma.mean(0), mu.var(0, correction=0), sigma.var(0, correction=0)]
        )
        sent = begin_(self, C)
        torch.testing.assert_close(sent["style"], expected)
        assert not sent["style"].requires_grad
        return sent

    def exchanged(self: Any, S: Any, up: Any) -> Any:
        events.append("exchange")
        down = exchange(self, S, up)
        for k in range(3):
            own = [j for j in range(3) if up["style"][j].equal(down["style"][k, 0])]
            assert len(own) == 1
            assert own[0] != k
        taken.extend(down["style"])
        return down

    def trained(self: Client) -> Any:
        events.append(f"train {self.k}")
        assert self.down.style.equal(taken[-3 + self.k])
        assert self.row.equal(run.state.row)
        return train(self)

    monkeypatch.setattr(kind, "begin", begun)
    monkeypatch.setattr(kind, "exchange", exchanged)
    monkeypatch.setattr(Client, "train", trained)
    run = small(spec(), method("stablefdg"))
    finish(run)
    one = ["begin 0", "begin 1", "begin 2", "exchange", "train 0", "train 1", "train 2"]
    assert events == one * 2


def cost(federation: Federation, name: str) -> list[float]:
    return [
        row["value"] for row in federation.records.rows if row["stage"] == "cost" and row["metric"] == name
    ]


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
    [
        ({}, 1, 1.0),
        ({}, 3, 0.34),
        ({"styles": 0}, 3, 1.0),
        ({"p": 0.0}, 3, 1.0),
        ({"centralized": True}, 3, 1.0),
    ],
)
def test_no_style_arrives(
    hp: dict[str, Any], clients: int, participation: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    train = Client.train

    def spy(self: Client) -> Tensor:
        assert not hasattr(self.down, "style")
        return train(self)

    monkeypatch.setattr(Client, "train", spy)
    run = spec(federation={"rounds": 2, "participation": participation})
    made = finish(small(run, method("stablefdg", **hp), clients=clients))
    assert made.state.row.isfinite().all()


def rows_of_a_step(**hp: Any) -> set[int]:
    """Sizes of the batches that reach the loss."""
    seen: set[int] = set()

    def criterion(logits: Tensor, y: Tensor) -> Tensor:
        assert len(logits) == len(y)
        seen.add(len(y))
        return cross_entropy(logits, y)

    finish(small(spec(federation={"rounds": 1}), method("stablefdg", **hp), criterion=criterion))
    return seen


@pytest.mark.parametrize(
    ("hp", "sizes"),
    [
        ({"p": 1.0}, {16, 8}),
        ({"p": 1.0, "positions": ["stage3", "stage4"], "attention": "none"}, {16, 8}),
        ({"p": 1.0, "size": 3}, {11, 7}),
        ({"p": 1.0, "size": 0}, {8, 4}),
        ({"p": 1.0, "positions": []}, {8, 4}),
        ({"p": 0.0}, {8, 4}),
        ({"p": 1.0, "attention": "convolution"}, {16, 8}),
    ],
)
def test_the_loss_sees_the_enlarged_batch(hp: dict[str, Any], sizes: set[int]) -> None:
    assert rows_of_a_step(**hp) == sizes


@pytest.mark.parametrize(
    ("p", "shifted", "explored_"), [(1.0, {"stage1": 1.0}, 1.0), (0.5, {"stage1": 0.5}, 0.5)]
)
def test_coins(
    p: float, shifted: dict[str, float], explored_: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = {"shift": 0, "explore": 0, "steps": 0}
    shapes: set[int] = set()

    def shift(self: Steps, own: Style, new: Style) -> Style:
        counts["shift"] += 1
        shapes.add(own.mu.shape[1])
        return original(self, own, new)

    original = Steps._shifted
    shares = __import__("fedshift.methods.stablefdg", fromlist=["shares"]).shares
    monkeypatch.setattr(Steps, "_shifted", shift)

    def counted(*args: Any) -> Tensor:
        counts["explore"] += 1
        return shares(*args)

    monkeypatch.setattr("fedshift.methods.stablefdg.shares", counted)
    finish(
        small(spec(local={"epochs": 4}, federation={"rounds": 4}), method("stablefdg", p=p, attention="none"))
    )
    total = 3 * 4 * 4 * 2
    assert counts["shift"] == pytest.approx(total * p, abs=0 if p == 1 else 4 * (total / 4) ** 0.5)
    assert counts["explore"] == pytest.approx(3 * total * p, abs=0 if p == 1 else 4 * (3 * total / 4) ** 0.5)
    assert shapes == {16}  # at stage 1 only


# ---- limits and counts


def test_everything_off_is_fedavg_bit_for_bit() -> None:
    run = spec(
        local={"momentum": 0.9, "optimizer_state": "persist", "clip": 5.0}, federation={"weights": "uniform"}
    )
    ours = finish(small(run, method("stablefdg", p=0.0, attention="none")))
    fedavg = finish(small(run, method("fedavg")))
    assert ours.state.row.equal(fedavg.state.row)
    assert cost(ours, "bytes_up") == cost(fedavg, "bytes_up")


def test_clients_weigh_the_same() -> None:
    samples, clients, target = images(2)
    clients[0] = type(clients[0])(clients[0].train[:6], clients[0].val, clients[0].test)
    model = get("models", "digits_cnn")
    run = spec(federation={"rounds": 1})
    made = Federation(run, method("stablefdg"), lambda: model(2, 32), samples, clients, target)
    finish(made)
    assert made.server.p.tolist() == [0.5, 0.5]


def test_central_training_is_one_client_with_all_data() -> None:
    made = finish(small(spec(), method("stablefdg", centralized=True)))
    assert len(made.clients) == 1
    assert len(made.clients[0].train) == 36
    assert made.method.optimizer_state == "persist"


@pytest.mark.parametrize(
    ("hp", "parameters"),
    [
        ({}, 11_214_467),
        ({"dead_v": True}, 11_229_859),
        ({"attention": "none"}, 11_180_103),
        ({"attention": "convolution"}, 11_180_103 + 3_584 + 30_841),
    ],
)
def test_parameters_of_resnet18(hp: dict[str, Any], parameters: int) -> None:
    model = method("stablefdg", **hp).model(get("models", "resnet18")(7, 64))
    assert sum(p.numel() for p in model.parameters()) == parameters
    assert model.feature_dim == model.head.in_features


@pytest.mark.parametrize("name", ["digits_cnn", "hfedf_cnn", "resnet18"])
def test_all_else_starts_as_in_fedavg(name: str) -> None:
    kind = get("models", name)
    _, layout, row = begin(lambda: kind(7, 32), 3)
    _, ours, our_row = begin(lambda: method("stablefdg").model(kind(7, 32)), 3)
    mine, theirs = ours.named(our_row), layout.named(row)
    assert set(theirs) <= set(mine)
    assert all(mine[key].equal(value) for key, value in theirs.items() if not key.startswith("head"))


def test_images_without_contrast_train_to_finite_weights() -> None:
    samples, clients, target = images(3)
    samples.pixels.fill_(100)
    model = get("models", "digits_cnn")
    made = Federation(spec(), method("stablefdg", p=1.0), lambda: model(2, 32), samples, clients, target)
    assert finish(made).state.row.isfinite().all()


def test_a_batch_of_one_without_batch_normalisation() -> None:
    samples, clients, target = images(3)
    model = get("models", "hfedf_cnn")
    run = spec(local={"batch": 11, "lr": 0.01})  # 12 images: 11 and 1
    for shift in ("seeds", "random", "official"):
        chosen = method("stablefdg", p=1.0, shift=shift)
        made = Federation(run, chosen, lambda: model(2, 32), samples, clients, target)
        assert finish(made).state.row.isfinite().all()


def test_a_client_with_one_image() -> None:
    samples, clients, target = images(3)
    clients[0] = type(clients[0])(clients[0].train[:1], clients[0].val, clients[0].test)
    for name in ("digits_cnn", "hfedf_cnn"):
        model = get("models", name)
        run = spec(local={"lr": 0.01})
        made = Federation(
            run, method("stablefdg"), lambda model=model: model(2, 32), samples, clients, target
        )
        assert finish(made).state.row.isfinite().all()


def test_the_protocol_and_the_released_preset() -> None:
    cells = {cell.label: cell.spec for cell in expand(ROOT, load(ROOT, "stablefdg/table1_pacs"))}
    ours, released = cells["stablefdg"], cells["released"]
    assert len(participants(30, ours.federation.participation, 0, 0)) == 10
    assert ours.local.schedule.kind == "cosine"
    assert ours.method.params == {}
    assert released.local.schedule.kind == "constant"
    assert released.method.params == {
        "sigma": "official", "shift": "official", "singletons": "cross", "share_from_round": 1, "dead_v": True
    }  # fmt: skip
    assert released.local.model_copy(update={"schedule": ours.local.schedule}) == ours.local
