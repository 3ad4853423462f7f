"""hFedF: the order of its round, its server step, and a whole run."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from fedshift.federation.batches import participants
from fedshift.federation.server import Server
from fedshift.methods import hfedf
from fedshift.methods.hfedf import hypernet
from fedshift.methods.hfedf.hypernet import Pullback, generate
from fedshift.testing.toys import finish, method, recorded, small, spec, tensors, turns

RUN = spec(local={"lr": 0.05}, federation={"rounds": 2})


def test_cotangents_are_what_training_took_away(monkeypatch: pytest.MonkeyPatch) -> None:
    seen, pulled = turns(monkeypatch), recorded(hypernet, "pullback", monkeypatch)
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
    pulled, weighed = recorded(hypernet, "pullback", monkeypatch), recorded(hfedf, "gradalign", monkeypatch)
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
    federation.server.weights.copy_(torch.tensor([1.0, 2.0, 5.0]))
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
    assert federation.evaluator.weights()["generated"].equal(federation.method.unseen(federation.server))
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
    pulled = recorded(hypernet, "pullback", monkeypatch)
    run = spec(local={"lr": 0.05}, federation={"rounds": 3, "participation": 0.67})
    finish(small(run, method("hfedf")))
    present = [participants(3, 0.67, run.seed, t) for t in range(3)]
    assert [0, 1] not in present  # else positions and clients would be the same
    for active, (*_, back) in zip(present, pulled, strict=True):
        moved = back.inner[:, :3].ne(0)
        assert moved.nonzero().tolist() == list(map(list, enumerate(active)))


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
        recorded(hypernet, "generate", monkeypatch),
        recorded(hypernet, "pullback", monkeypatch),
    )
    finish(small(spec(federation={"rounds": 1}), method("hfedf")))
    assert len(made) >= 6
    assert len(pulled) == 1
    assert (generate.equation.number, pulled[0][-1].__class__) == ("Eq. 4", Pullback)  # type: ignore[attr-defined]


def test_a_server_keeps_no_graph() -> None:
    federation = finish(small(RUN, method("hfedf")))
    assert isinstance(federation.server, Server)
    assert not any(slot.requires_grad for slot in tensors(federation).values())
