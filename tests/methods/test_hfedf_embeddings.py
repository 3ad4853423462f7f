"""hFedF: how embeddings and the hypernetwork start, and what is drawn or learned beforehand."""

from __future__ import annotations

import inspect
import itertools
from typing import Any

import pytest
import torch

from fedshift.common.errors import FedshiftError
from fedshift.common.registry import get
from fedshift.federation.batches import generator
from fedshift.federation.client import Client
from fedshift.federation.loop import Federation
from fedshift.methods import hfedf
from fedshift.methods.hfedf import HFedF, hypernet
from fedshift.methods.hfedf.hypernet import generate, own_deviation
from fedshift.spec.block import params
from fedshift.testing.toys import finish, method, recorded, small, spec, to_float, turns
from tests.models.plain import autoencoder

RUN = spec(local={"lr": 0.05}, federation={"rounds": 2})


def test_random_embeddings_are_drawn_after_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    pulled = recorded(hypernet, "pullback", monkeypatch)
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
    visited = recorded(HFedF, "_latent", monkeypatch)
    pulled, seen = recorded(hypernet, "pullback", monkeypatch), turns(monkeypatch)
    federation = pre_learned()
    start = federation.state.slots["autoencoder"].clone()
    assert start[0].equal(start[1]) and start[0].equal(start[2])
    finish(federation)
    assert len(visited) == 3
    latents = torch.stack([call[-1]["latent"] for call in visited])
    assert latents.shape == (3, 2)
    assert not latents[0].allclose(latents[1], atol=1e-6)
    trained = federation.state.slots["autoencoder"]
    assert all(not one.equal(start[0]) for one in trained)
    assert not trained[0].equal(trained[1])
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
    assert [len(call[1]) for call in fitted] == [16, 6, 14]
    for _, x, _ in fitted:
        assert (x.amin((0, 2, 3)).tolist(), x.amax((0, 2, 3)).tolist()) == ([0] * 3, [1] * 3)
    assert [len(call[1]) for call in encoded if len(call[1]) < 6] == [3, 5, 4]


def test_latents_are_those_of_100_training_images_and_all_of_validation_written_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first 100 of the shuffled training images, each channel from their extremes to [0, 1]; Adam, batches of 20.

    Three epochs of the 50: rounding, which differs between machines, grows with each.
    """
    fit = hfedf.Autoencoder.fit
    assert inspect.signature(fit).parameters["epochs"].default == 50
    monkeypatch.setattr(hfedf.Autoencoder, "fit", lambda own, x: fit(own, x, epochs=3))
    run = spec(local={"lr": 0.05}, federation={"rounds": 1})
    chosen = method("hfedf", embedding="pre_learned", embedding_dim=2)
    federation = small(run, chosen, sizes=((104, 3, 2), (6, 5, 2), (14, 4, 2)))
    start = federation.state.slots["autoencoder"][0].clone()
    finish(federation)
    latents = chosen.net(federation.layout, 3).embeddings(federation.server.slot.h)
    samples = federation.worker.samples
    for k, client in enumerate(federation.clients):
        order = client.train[torch.randperm(len(client.train), generator=generator(0, "begin", 0, k))]
        images = to_float(samples.pixels[order[:100]])
        low, high = (pick((0, 2, 3), keepdim=True) for pick in (images.amin, images.amax))
        shapes = {name: one.shape for name, one in hfedf.Autoencoder(2).named_parameters()}
        parts = start.split([shape.numel() for shape in shapes.values()])
        P = {
            name: part.view(shape).clone().requires_grad_()
            for (name, shape), part in zip(shapes.items(), parts, strict=True)
        }
        adam = torch.optim.Adam(P.values(), lr=1e-3)
        for _ in range(3):
            for x in ((images - low) / (high - low)).split(20):
                adam.zero_grad()
                (autoencoder(P, x)[1] - x).square().mean().backward()
                adam.step()
        validation = (to_float(samples.pixels[client.val]) - low) / (high - low)
        torch.testing.assert_close(latents[k], autoencoder(P, validation)[0].mean(0), rtol=1e-4, atol=1e-5)


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


def test_the_deviation_of_embeddings_scales_their_draws_and_nothing_else() -> None:
    for embedding in ("learned", "random"):
        starts = [
            small(RUN, method("hfedf", embedding=embedding, embedding_std=std)).server.slot.h
            for std in (1.0, 0.01)
        ]
        federation = small(RUN, method("hfedf", embedding=embedding))
        clients = federation.method.net(federation.layout, federation.server.N).embeddings(starts[0]).numel()
        assert starts[1][:clients].tolist() == pytest.approx((0.01 * starts[0][:clients]).tolist())
        assert starts[1][clients:].equal(starts[0][clients:])
    federation = finish(small(RUN, method("hfedf", embedding="random", embedding_dim=40, embedding_std=0.01)))
    drawn = federation.method.net(federation.layout, federation.server.N).embeddings(federation.server.slot.h)
    assert drawn.std().item() == pytest.approx(0.01, rel=0.25)


def test_fan_in_start_gives_generated_weights_the_models_own_deviation() -> None:
    federation = small(RUN, method("hfedf", head_init="fanin"))
    rows = federation.method.unseen(federation.server)
    for entry in federation.layout.entries:
        if entry.kind == "weight" and entry.slice.stop - entry.slice.start > 4000:
            wanted = (3 * torch.Size(entry.shape[1:]).numel()) ** -0.5
            assert rows[:, entry.slice].std().item() == pytest.approx(wanted, rel=0.05)
    bias = next(entry for entry in federation.layout.entries if entry.name == "stages.stage2.conv.bias")
    assert own_deviation(federation.layout)[bias.slice].tolist() == pytest.approx([(3 * 16 * 9) ** -0.5] * 32)
