"""hFedF: Eq. 4 to 10 against the reference, the order of its round, its limits and variants."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from fedshift.errors import FedshiftError
from fedshift.federation.batches import participants
from fedshift.federation.local import Client
from fedshift.federation.loop import Federation
from fedshift.federation.optimizer import Rule
from fedshift.federation.state import Server
from fedshift.methods import _generated, hfedf
from fedshift.methods._generated import embedding_dim, own_deviation
from fedshift.methods.hfedf import HFedF, alignment, ema_step, gradalign
from fedshift.models.layers.hypernet import Pullback, generate
from fedshift.registry import get
from fedshift.resolve import params
from tests.federation.toys import finish, method, quadratics, small, spec, turns
from tests.reference import Reference

RUN = spec(local={"lr": 0.05}, federation={"rounds": 2})


def factors(g: Tensor) -> Pullback:
    """Gradients g [K, d] of a hypernetwork whose heads get none."""
    return Pullback(g, g.new_zeros(len(g), 1), g.new_zeros(len(g), 1))


def recorded(owner: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """The arguments and the result of every later call of a function of a module or class."""
    calls: list[tuple[Any, ...]] = []
    function: Callable[..., Any] = getattr(owner, name)

    def spy(*args: Any, **options: Any) -> Any:
        before = [arg.clone() if isinstance(arg, Tensor) else arg for arg in args]
        calls.append((*before, function(*args, **options)))
        return calls[-1][-1]

    monkeypatch.setattr(owner, name, spy)
    return calls


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
    seen, pulled = turns(monkeypatch), recorded(_generated, "pullback", monkeypatch)
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


@pytest.mark.parametrize(
    ("sign", "weights"), [(1, [0.378873, 0.378873, 0.242254]), (-1, [0.280588, 0.280588, 0.438825])]
)
def test_a_gradient_far_from_the_mean_weighs_less(sign: int, weights: list[float]) -> None:
    gamma = alignment(factors(torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])).gram())
    assert gamma.tolist() == pytest.approx([0.894427, 0.894427, 0.447214], abs=1e-6)
    assert gradalign(gamma, sign).tolist() == pytest.approx(weights, abs=1e-6)


def test_equal_gradients_weigh_the_same_and_zero_ones_do_no_harm() -> None:
    equal = gradalign(alignment(factors(torch.tensor([[1.0, 2.0]] * 3)).gram()), 1)
    assert equal.tolist() == pytest.approx([1 / 3] * 3, abs=1e-6)
    assert alignment(torch.zeros(3, 3)).tolist() == [0, 0, 0]
    assert alignment(factors(torch.tensor([[1.0, 0.0], [0.0, 0.0]])).gram()).tolist() == [1, 0]
    assert alignment(factors(torch.tensor([[1.0, 1.0], [-1.0, -1.0]])).gram()).tolist() == [0, 0]


def test_descent_brings_theta_towards_the_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    plain_steps(monkeypatch)
    default, literal = linear([1.0, 3.0, 0.5, 1.0]), linear([1.0, 3.0, 0.5, 1.0], literal_sign=True)
    assert finish(default).server.slot.h[2].item() == pytest.approx(0.0355, abs=1e-4)
    assert finish(literal).server.slot.h[2].item() == pytest.approx(0.964, abs=1e-3)


@pytest.mark.parametrize("clients", [1, 3])
def test_an_identity_hypernetwork_is_fedavg(clients: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """phi = theta_1, server step 1: the (uniform) mean of the clients' models, in every round."""
    plain_steps(monkeypatch)
    h, c = [1.0, 0.5, 2.0][:clients], [3.0, -1.0, 0.5][:clients]
    identity = method("hfedf", hidden=0, embedding_dim=1, gradalign=False)
    made = quadratics(identity, h, c, 0.5, 0.1, 2, rounds=3)
    made.state.slots["h"].zero_()[-1] = 0.5
    fedavg = finish(quadratics(method("fedavg"), h, c, 0.5, 0.1, 2, rounds=3))
    assert finish(made).server.slot.h[-1].item() == pytest.approx(fedavg.server.row.item(), abs=1e-12)
    assert made.server.slot.h[:-1].eq(0).all()


def test_cotangents_are_what_training_took_away(monkeypatch: pytest.MonkeyPatch) -> None:
    seen, pulled = turns(monkeypatch), recorded(_generated, "pullback", monkeypatch)
    federation = finish(small(RUN, method("hfedf")))
    W = federation.layout.W
    assert len(pulled) == 2
    for t, (net, h, active, cotangents, _) in enumerate(pulled):
        assert active == [0, 1, 2]
        for k, (received, trained) in enumerate(seen[3 * t : 3 * t + 3]):
            assert received[W].equal(generate(net, h, k))
            assert cotangents[k].equal(received[W] - trained[W])
            assert cotangents[k].any()


@pytest.mark.parametrize(
    ("options", "weights"),
    [
        ({}, None),
        ({"gradalign": False}, [1 / 3] * 3),
        ({"literal_sign": True, "gradalign": False}, [-1 / 3] * 3),
    ],
)
def test_the_server_is_torchs_adam_over_everything_and_remembers(
    options: dict[str, Any], weights: list[float] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All rounds replayed from the weighted gradients: one coupled Adam, whose step alpha shortens after the warm-up."""
    combined, weighed = recorded(Pullback, "combined", monkeypatch), recorded(hfedf, "gradalign", monkeypatch)
    run = spec(local={"lr": 0.05}, federation={"rounds": 4})
    hp = {"lr": 0.01, "weight_decay": 0.1, "ema": 0.75, "warmup": 1}
    federation = small(run, method("hfedf", **hp, **options))
    h = federation.server.slot.h.clone().requires_grad_()
    finish(federation)
    adam, smoothed = torch.optim.Adam([h], lr=0.01, weight_decay=0.1), h.detach().clone()
    for t, (_, used, g) in enumerate(combined):
        expected = torch.tensor(weights) if weights else weighed[t][-1]
        assert used.tolist() == pytest.approx(expected.tolist())
        h.grad = g
        adam.step()
        if (
            t <= 1
        ):  # Algorithm 4: copy at the warm-up round, then alpha theta + (1 - alpha) smoothed replaces theta
            smoothed.copy_(h.detach())
        else:
            smoothed.mul_(0.25).add_(h.detach(), alpha=0.75)
            h.data.copy_(smoothed)
    assert len(combined) == 4
    torch.testing.assert_close(federation.server.slot.h, h.detach(), rtol=1e-5, atol=1e-6)
    assert bool(weighed) == options.get("gradalign", True)


def test_gradalign_takes_the_gram_matrix_of_this_round(monkeypatch: pytest.MonkeyPatch) -> None:
    pulled, weighed = recorded(_generated, "pullback", monkeypatch), recorded(hfedf, "gradalign", monkeypatch)
    finish(small(RUN, method("hfedf", gradalign_sign=-1)))
    for (*_, back), (gamma, sign, weights) in zip(pulled, weighed, strict=True):
        g = torch.stack([back.combined(one) for one in torch.eye(3)]).double()
        cosines = torch.cosine_similarity(g, g.mean(0, keepdim=True))
        assert gamma.tolist() == pytest.approx(cosines.tolist(), abs=1e-5)
        assert sign == -1
        assert weights.tolist() == pytest.approx(torch.softmax(-cosines, 0).tolist(), abs=1e-5)


def test_statistics_are_the_mean_by_size_and_go_with_every_model(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = turns(monkeypatch)
    federation = small(RUN, method("hfedf"))
    federation.server._sizes.copy_(torch.tensor([1.0, 2.0, 5.0]))
    finish(federation)
    B, row = federation.layout.B, federation.server.row
    p = torch.tensor([1.0, 2.0, 5.0]) / 8
    expected = sum(weight * trained[B] for weight, (_, trained) in zip(p, seen[3:], strict=True))
    torch.testing.assert_close(row[B], expected)
    assert not row[B].equal(seen[3][1][B])
    assert all(received[B].equal(seen[3][0][B]) for received, _ in seen[4:])
    unseen = federation.method.unseen(federation.server)
    assert unseen.shape == (3, federation.layout.size)
    assert unseen[:, B].equal(row[B].expand(3, -1))


def test_every_client_gets_a_model_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = turns(monkeypatch)
    federation = finish(small(RUN, method("hfedf")))
    first = [received for received, _ in seen[:3]]
    assert not first[0].equal(first[1])
    assert federation.scores.weights()["generated"].equal(federation.method.unseen(federation.server))
    shown = {
        (row["model"], row["stage"], row["split"])
        for row in federation.records.rows
        if row["metric"] == "accuracy"
    }
    assert shown == {("personal", "post_agg", split) for split in ("val", "test", "target")}


def test_clients_that_do_not_move_leave_the_hypernetwork_as_it_is() -> None:
    federation = small(spec(local={"lr": 0.0}, federation={"rounds": 2}), method("hfedf", weight_decay=0.0))
    start = federation.server.slot.h.clone()
    assert finish(federation).server.slot.h.equal(start)


def test_absent_clients_have_no_part_in_the_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    pulled = recorded(_generated, "pullback", monkeypatch)
    run = spec(local={"lr": 0.05}, federation={"rounds": 3, "participation": 0.67})
    finish(small(run, method("hfedf")))
    present = [participants(3, 0.67, run.seed, t) for t in range(3)]
    assert [0, 1] not in present  # else positions and clients would be the same
    for active, (*_, back) in zip(present, pulled, strict=True):
        moved = back.inner[:, :3].ne(0)
        assert moved.nonzero().tolist() == list(map(list, enumerate(active)))


def test_random_embeddings_are_drawn_after_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    pulled = recorded(_generated, "pullback", monkeypatch)
    run = spec(local={"lr": 0.05}, federation={"rounds": 3})
    federation = finish(small(run, method("hfedf", embedding="random", embedding_dim=40)))
    embeddings = [net.embeddings(h) for net, h, *_ in pulled]
    embeddings.append(pulled[0][0].embeddings(federation.server.slot.h))
    for before, after in itertools.pairwise(embeddings):
        assert (after - before).abs().min() > 1e-4
        assert after.mean().item() == pytest.approx(0, abs=0.3)
        assert after.std().item() == pytest.approx(1, abs=0.25)
    again = finish(small(run, method("hfedf", embedding="random", embedding_dim=40)))
    assert again.server.slot.h.equal(federation.server.slot.h)


def pre_learned(rounds: int = 2, **federation: Any) -> Federation:
    run = spec(local={"lr": 0.05}, federation={"rounds": rounds, **federation})
    return small(run, method("hfedf", embedding="pre_learned", embedding_dim=2, weight_decay=0.1))


def test_pre_learned_embeddings_are_the_latents_and_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hfedf, "IMAGES", 6)
    begun, exchanged = recorded(HFedF, "begin", monkeypatch), recorded(HFedF, "exchange", monkeypatch)
    pulled, seen = recorded(_generated, "pullback", monkeypatch), turns(monkeypatch)
    federation = pre_learned()
    start = federation.state.slots["autoencoder"].clone()
    assert start[0].equal(start[1]) and start[0].equal(start[2])
    finish(federation)
    assert len(exchanged) == 1
    latents = exchanged[0][2]["latent"]
    assert latents.shape == (3, 2)
    assert not latents[0].allclose(latents[1], atol=1e-6)
    trained = federation.state.slots["autoencoder"]
    assert all(not one.equal(start[0]) for one in trained)
    assert not trained[0].equal(trained[1])
    assert [call[-1] is None for call in begun] == [False] * 3 + [True] * 3
    net = pulled[0][0]
    assert all(net.embeddings(call[1]).equal(latents) for call in pulled)
    assert net.embeddings(federation.server.slot.h).equal(latents)
    assert all(not call[-1].inner[:, : latents.numel()].any() for call in pulled)
    assert seen[0][0][federation.layout.W].equal(generate(net, pulled[0][1], 0))
    sent = [row["value"] for row in federation.records.rows if row["metric"] == "bytes_up"]
    assert sent[0] - sent[1] == 3 * 2 * 4


def test_the_autoencoder_sees_at_most_100_training_images_and_all_of_validation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fitted = recorded(hfedf.Autoencoder, "fit", monkeypatch)
    encoded = recorded(hfedf.Autoencoder, "encode", monkeypatch)
    finish(pre_learned(rounds=1))
    assert hfedf.IMAGES == 100
    assert [call[1].shape for call in fitted] == [(12, 3, 32, 32)] * 3
    for _, x, _ in fitted:
        assert (x.amin((0, 2, 3)).tolist(), x.amax((0, 2, 3)).tolist()) == ([0] * 3, [1] * 3)
    assert sum(call[1].shape == (4, 3, 32, 32) for call in encoded) == 3


def test_pre_learned_embeddings_need_all_clients_and_32_px(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hfedf.Autoencoder, "fit", lambda *args: None)
    with pytest.raises(FedshiftError, match="need every client"):
        finish(pre_learned(participation=0.67))
    monkeypatch.setattr(Client, "batches", lambda self: iter([(torch.zeros(4, 3, 16, 16), None)]))
    with pytest.raises(FedshiftError, match="takes 32 px, not 16"):
        finish(pre_learned())


@pytest.mark.parametrize("key", ["ema", "embedding_dim", "hidden"])
def test_parameters_out_of_range_are_refused(key: str) -> None:
    with pytest.raises(FedshiftError, match=f"'{key}'.* of hfedf"):
        params(get("methods", "hfedf"), {key: -1}, "test")


def test_fan_in_start_gives_generated_weights_the_models_own_deviation() -> None:
    federation = small(RUN, method("hfedf", head_init="fanin"))
    rows = federation.method.unseen(federation.server)
    for entry in federation.layout.entries:
        if entry.kind == "weight" and entry.slice.stop - entry.slice.start > 4000:
            wanted = (3 * torch.Size(entry.shape[1:]).numel()) ** -0.5
            assert rows[:, entry.slice].std().item() == pytest.approx(wanted, rel=0.05)
    bias = next(entry for entry in federation.layout.entries if entry.name == "stages.stage2.conv.bias")
    assert own_deviation(federation.layout)[bias.slice].tolist() == pytest.approx([(3 * 16 * 9) ** -0.5] * 32)


def test_a_small_federation_learns() -> None:
    run = spec(local={"lr": 0.001, "optimizer": "adam", "epochs": 4}, federation={"rounds": 12})
    federation = finish(small(run, method("hfedf", lr=0.01)))
    losses = [
        row["value"] for row in federation.records.rows if row["metric"] == "loss" and row["split"] == "train"
    ]
    assert sum(losses[-3:]) < sum(losses[:3]) / 2


def test_the_round_uses_the_marked_equations(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those in the hypernetwork's file; tests/contract/test_equations.py looks at this method's own."""
    made, pulled = (
        recorded(_generated, "generate", monkeypatch),
        recorded(_generated, "pullback", monkeypatch),
    )
    finish(small(spec(federation={"rounds": 1}), method("hfedf")))
    assert len(made) >= 6
    assert len(pulled) == 1
    assert (generate.equation.number, pulled[0][-1].__class__) == ("Eq. 4", Pullback)  # type: ignore[attr-defined]


def test_a_server_keeps_no_graph() -> None:
    federation = finish(small(RUN, method("hfedf")))
    assert isinstance(federation.server, Server)
    assert not any(slot.requires_grad for slot in federation.state.tensors().values())
