"""hFedF: Eq. 4-10 against the reference and at their boundaries, its embeddings, its limits."""

import inspect
import itertools
from typing import Any

import pytest
import torch
from torch import Tensor

from fedshift.common.errors import FedshiftError
from fedshift.federation.batches import generator
from fedshift.federation.client import Client
from fedshift.federation.loop import Federation
from fedshift.federation.optimizer import Rule
from fedshift.methods import hfedf
from fedshift.methods.hfedf import alignment, ema_step, gradalign, hypernet
from fedshift.methods.hfedf.autoencoder import Autoencoder
from fedshift.methods.hfedf.hypernet import Pullback, embedding_dim, own_deviation
from fedshift.testing.toys import finish, method, quadratics, recorded, small, spec, to_float, turns
from tests.methods import plain, plain_hypernet
from tests.models.plain import autoencoder
from tests.reference import Reference

RUN = spec(local={"lr": 0.05}, federation={"rounds": 2})


def factors(g: Tensor) -> Pullback:
    """Gradients g [K, d] of a hypernetwork whose heads get none."""
    return Pullback(g, g.new_zeros(len(g), 1), g.new_zeros(len(g), 1))


def plain_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server descends by w -= g."""
    monkeypatch.setattr(hfedf, "Rule", lambda *args, **options: Rule("sgd", 1.0))


def linear(values: list[float], rounds: int = 1, lr: float = 0.1, **hp: Any) -> Federation:
    """One number w per client, its loss w^2 / 2, from a hypernetwork theta_0 nu + theta_1; values: nu, theta_0, theta_1."""
    clients = len(values) - 2
    chosen = method("hfedf", hidden=0, embedding_dim=1, **hp)
    made = quadratics(chosen, [1.0] * clients, [0.0] * clients, 0.0, lr, 1, rounds)
    made.state.slots["h"].copy_(torch.tensor(values, dtype=torch.float64))
    return made


@pytest.mark.parity
@pytest.mark.parametrize(("case", "sign"), [("plus", 1), ("minus_eq9", -1), ("equal", 1)])
def test_gradalign_follows_the_reference(case: str, sign: int) -> None:
    ref = Reference("hfedf.json")
    g = ref.given(f"gradalign_{case}.g")
    ref.equals(f"gradalign_{case}.g_avg", g.mean(0))
    gamma = alignment(factors(g).gram())
    weights = gradalign(gamma, sign)
    ref.equals(f"gradalign_{case}.cos", gamma)
    ref.equals(f"gradalign_{case}.weights", weights)
    ref.equals(f"gradalign_{case}.combined", factors(g).combined(weights)[:2])


@pytest.mark.parity
def test_ema_follows_the_reference() -> None:
    ref = Reference("hfedf.json")
    alpha, theta, before = (ref.given(f"ema.{name}") for name in ("alpha", "theta", "ema_prev"))
    ref.equals("ema.out", before + ema_step(2, 1, alpha) * (theta - before))
    smoothed = 0.0
    for t, step in enumerate((0.0, 4.0, 4.0)):  # theta: 0, 4, 8, warm-up round 1
        smoothed += ema_step(t, 1, 0.75) * step
    ref.equals("ema_sequence_alpha_0p75_warm_w1.out", smoothed)


@pytest.mark.parity
def test_a_round_follows_the_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    ref = Reference("hfedf.json")
    theta, nu, mu = (ref.given(f"tiny_hypernet.{name}") for name in ("theta", "nu", "mu"))
    start = [*nu.tolist(), *theta.tolist()]
    plain_steps(monkeypatch)
    seen, pulled = turns(monkeypatch), recorded(hypernet, "pullback", monkeypatch)
    weighed = recorded(hfedf, "gradalign", monkeypatch)
    federation = finish(linear(start, lr=mu))
    received, trained = (torch.cat(rows) for rows in zip(*seen, strict=True))
    ref.equals("tiny_hypernet.phi", received)
    ref.equals("tiny_hypernet.phi_tilde", trained)
    ref.equals("tiny_hypernet.delta_phi", trained - received)
    back, weights = pulled[0][-1], weighed[0][-1]
    g = torch.stack([back.combined(one) for one in torch.eye(2, dtype=torch.float64)])
    ref.equals("tiny_hypernet.g_descent", g.roll(2, 1))
    ref.equals("tiny_hypernet.weights", weights)
    ref.equals("tiny_hypernet.combined", back.combined(weights).roll(2))
    ref.equals("tiny_hypernet.theta_next_sgd_alpha1", federation.server.slot.h.roll(2))
    literal = finish(linear(start, lr=mu, literal_sign=True))
    ref.equals("tiny_hypernet.theta_next_if_paper_sign_taken_literally", literal.server.slot.h.roll(2))


@pytest.mark.parity
def test_embedding_dimensions_follow_the_reference() -> None:
    ref = Reference("hfedf.json")
    for clients in ref.keys("embedding_dim"):
        ref.equals(f"embedding_dim.{clients}", embedding_dim(int(clients)))


def test_equal_gradients_weigh_the_same_and_zero_ones_do_no_harm() -> None:
    equal = gradalign(alignment(factors(torch.tensor([[1.0, 2.0]] * 3)).gram()), 1)
    assert equal.tolist() == pytest.approx([1 / 3] * 3, abs=1e-6)
    assert alignment(torch.zeros(3, 3)).tolist() == [0, 0, 0]
    assert alignment(factors(torch.tensor([[1.0, 0.0], [0.0, 0.0]])).gram()).tolist() == [1, 0]
    assert alignment(factors(torch.tensor([[1.0, 1.0], [-1.0, -1.0]])).gram()).tolist() == [0, 0]


def test_random_embeddings_are_drawn_after_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    pulled = recorded(hypernet, "pullback", monkeypatch)
    chosen = method("hfedf", embedding="random", embedding_dim=40, embedding_std=0.01)
    federation = finish(small(RUN, chosen))
    embeddings = [net.embeddings(h) for net, h, *_ in pulled]
    embeddings.append(pulled[0][0].embeddings(federation.server.slot.h))
    for before, after in itertools.pairwise(embeddings):
        assert (after - before).abs().min() > 1e-6
        assert after.mean().item() == pytest.approx(0, abs=0.003)
        assert after.std().item() == pytest.approx(0.01, rel=0.25)


def test_latents_are_those_of_100_training_images_and_all_of_validation_written_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first 100 of the shuffled training images, each channel from their extremes to [0, 1]; Adam, batches of 20.

    They travel once, and no later step moves them. Three epochs of the 50: rounding, which differs between machines, grows with each.
    """
    fit = hfedf.Autoencoder.fit
    assert inspect.signature(fit).parameters["epochs"].default == 50
    monkeypatch.setattr(hfedf.Autoencoder, "fit", lambda own, x: fit(own, x, epochs=3))
    chosen = method("hfedf", embedding="pre_learned", embedding_dim=2, weight_decay=0.1)
    federation = small(RUN, chosen, sizes=((104, 3, 2), (6, 5, 2), (14, 4, 2)))
    start = federation.state.slots["autoencoder"][0].clone()
    finish(federation)
    sent = [row["value"] for row in federation.records.rows if row["metric"] == "bytes_up"]
    assert sent[0] - sent[1] == 3 * 2 * 4
    latents = chosen.net(federation.layout, 3).embeddings(federation.server.slot.h)
    samples = federation.worker.samples
    for k, client in enumerate(federation.clients):
        order = client.train[torch.randperm(len(client.train), generator=generator(0, "begin", 0, k))]
        images = to_float(samples.pixels[order[:100]])
        low, high = (pick((0, 2, 3), keepdim=True) for pick in (images.amin, images.amax))
        shapes = {name: one.shape for name, one in hfedf.Autoencoder(2).named_parameters()}
        parts = start.split([shape.numel() for shape in shapes.values()])
        views = [part.view(one) for one, part in zip(shapes.values(), parts, strict=True)]
        P = {name: view.clone().requires_grad_() for name, view in zip(shapes, views, strict=True)}
        adam = torch.optim.Adam(P.values(), lr=1e-3)
        for _ in range(3):
            for x in ((images - low) / (high - low)).split(20):
                adam.zero_grad()
                (autoencoder(P, x)[1] - x).square().mean().backward()
                adam.step()
        validation = (to_float(samples.pixels[client.val]) - low) / (high - low)
        torch.testing.assert_close(latents[k], autoencoder(P, validation)[0].mean(0), rtol=1e-4, atol=1e-5)


def test_pre_learned_embeddings_need_all_clients_and_32_px(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = method("hfedf", embedding="pre_learned", embedding_dim=2)
    monkeypatch.setattr(hfedf.Autoencoder, "fit", lambda *args: None)
    with pytest.raises(FedshiftError, match="need every client"):
        finish(small(spec(federation={"rounds": 2, "participation": 0.67}), chosen))
    monkeypatch.setattr(Client, "batches", lambda self: iter([(torch.zeros(4, 3, 16, 16), None)]))
    with pytest.raises(FedshiftError, match="takes 32 px, not 16"):
        finish(small(RUN, chosen))


def test_fan_in_start_gives_generated_weights_the_models_own_deviation() -> None:
    federation = small(RUN, method("hfedf", head_init="fanin"))
    rows = federation.method.unseen(federation.server)
    for entry in federation.layout.entries:
        if entry.kind == "weight" and entry.slice.stop - entry.slice.start > 4000:
            wanted = (3 * torch.Size(entry.shape[1:]).numel()) ** -0.5
            assert rows[:, entry.slice].std().item() == pytest.approx(wanted, rel=0.05)
    bias = next(entry for entry in federation.layout.entries if entry.name == "stages.stage2.conv.bias")
    assert own_deviation(federation.layout)[bias.slice].tolist() == pytest.approx([(3 * 16 * 9) ** -0.5] * 32)


def test_the_deviation_of_embeddings_scales_their_draws_and_nothing_else() -> None:
    wide, narrow = (small(RUN, method("hfedf", embedding_std=std)).server.slot.h for std in (1.0, 0.01))
    assert narrow[:3].tolist() == pytest.approx((0.01 * wide[:3]).tolist())
    assert narrow[3:].equal(wide[3:])


# Three rounds of hFedF, one of three unequal clients at rest, against Algorithm 1, 3 and 4 written out: a second copy for EMA, autograd through the whole hypernetwork.
@pytest.mark.parametrize(
    "hp",
    [
        {"ema": 0.75, "warmup": 1},
        {"ema": 0.6, "warmup": 0, "gradalign_sign": -1, "literal_sign": True},
        {"ema": 1.0, "gradalign": False, "embedding_dim": 3},
    ],
    ids=["default", "as_printed", "without"],
)
@plain.doubles()
def test_three_rounds(hp: dict[str, Any]) -> None:
    run = spec(local=plain_hypernet.LOCAL, federation=plain.PARTIAL)
    f = plain.federation(run, method("hfedf", lr=0.01, weight_decay=1e-3, **hp))
    W, B, N, e = f.layout.W, f.layout.B, 3, hp.get("embedding_dim", 1)
    h, row, adam = f.state.slots["h"].clone(), f.state.row.clone(), plain_hypernet.Adam(0.01, 1e-3)
    smoothed = h
    for t in range(3):
        leaf, gradients, statistics = h.clone().requires_grad_(), [], []
        chosen = plain.active(f, t)
        for i in chosen:
            phi = plain_hypernet.generated(leaf, i, N, e, f.layout.P)
            received = row.clone()
            received[W] = phi.detach()
            after = plain_hypernet.trained(f, received, i, t)
            gradients.append(torch.autograd.grad(phi, leaf, (received - after)[W])[0])
            statistics.append(after[B])
        g = torch.stack(gradients)
        cosines = torch.cosine_similarity(g, g.mean(0, keepdim=True))
        weights = torch.full((len(chosen),), 1 / len(chosen))
        if hp.get("gradalign", True):
            weights = torch.softmax(hp.get("gradalign_sign", 1) * cosines, 0)
        h = adam(h, (-1 if hp.get("literal_sign") else 1) * weights @ g)
        if t == hp.get("warmup", 10):
            smoothed = h
        if t > hp.get("warmup", 10):
            h = smoothed = hp["ema"] * h + (1 - hp["ema"]) * smoothed
        row[B] = sum(p * one for p, one in zip(plain.by_size(chosen), statistics, strict=True))
    finish(f)
    assert (f.state.slots["h"] - h).abs().max() < 1e-7
    assert (f.state.row[B] - row[B]).abs().max() < 1e-7


def test_an_autoencoder_starts_from_its_generator_alone() -> None:
    starts = []
    for before, seed in ((1, 5), (2, 5), (1, 6)):
        torch.manual_seed(before)
        starts.append(Autoencoder.draw(4, torch.Generator().manual_seed(seed)))
    assert starts[0].equal(starts[1]) and not starts[0].equal(starts[2])
