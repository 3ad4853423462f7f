"""FDSE: its equations by hand, who owns what, and the order of a round (against the reference: test_fdse_parity.py)."""

from __future__ import annotations

import math
import subprocess
import sys
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fedshift.errors import FedshiftError
from fedshift.federation.local import Client
from fedshift.federation.loop import Federation
from fedshift.methods import fdse
from fedshift.methods._min_norm import min_norm
from fedshift.methods.fdse import (
    Alignment,
    consensus,
    consistency,
    depth_weights,
    moments,
    running,
    similarity,
)
from fedshift.models.layers.dse import DSEBlock
from fedshift.registry import get
from tests.federation.toys import finish, images, method, small, spec

RUN = spec(local={"batch": 8, "lr": 0.1}, federation={"rounds": 2})


def alexnet(params: dict[str, Any]) -> tuple[Any, Any]:
    from fedshift.federation.layout import Layout

    chosen = method("fdse", **params)
    with torch.device("meta"):
        model = chosen.model(get("models", "alexnet_bn")(10, 256))
    return Layout(model), chosen


def channels(*sizes: int) -> Tensor:
    return torch.block_diag(*[torch.full((1, size), 1 / size, dtype=torch.float64) for size in sizes])


# ---- equations by hand


def test_consensus_by_hand() -> None:
    def result(*updates: list[float]) -> list[float]:
        return consensus(torch.tensor(updates, dtype=torch.float64)).tolist()

    assert result([3, 0], [0, 4]) == pytest.approx([1.75, 1.75], abs=1e-12)
    assert result([2, 0], [-5, 0]) == pytest.approx([0, 0], abs=1e-12)
    assert result([1, 0], [3, 0]) == pytest.approx([2, 0], abs=1e-12)
    assert result([1, 0], [1, 0], [0, 1]) == pytest.approx([0.5, 0.5], abs=1e-12)
    assert result([3, 0], [0, 4], [0, 0]) == pytest.approx([7 / 6, 7 / 6], abs=1e-12)
    assert result([0, 0], [0, 0]) == [0, 0]
    assert result([1, 2]) == [1, 2]


def test_consensus_harms_nobody() -> None:
    """Many random updates, more than there are dimensions or fewer; scaling one client changes the length alone."""
    for seed, (clients, n) in enumerate([(2, 50), (4, 50), (10, 3), (30, 8)]):
        updates = torch.randn(clients, n, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        common = consensus(updates)
        assert (updates @ common >= -1e-9).all()
        louder = updates.clone()
        louder[0] *= 100
        length = louder.norm(dim=1).mean() / updates.norm(dim=1).mean()
        torch.testing.assert_close(consensus(louder), common * length, rtol=1e-7, atol=1e-9)
        order = torch.randperm(clients, generator=torch.Generator().manual_seed(1))
        torch.testing.assert_close(consensus(updates[order]), common, rtol=1e-7, atol=1e-9)


def test_min_norm_is_optimal() -> None:
    """u >= 0, sum 1, and no vertex is a direction of descent: <e_k, e> >= ||e||^2."""
    for seed, (k, n) in enumerate([(3, 2), (6, 4), (12, 30), (30, 5)]):
        e = torch.randn(k, n, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        u = min_norm(e @ e.T)
        assert (u >= 0).all() and u.sum().item() == pytest.approx(1, abs=1e-12)
        assert (e @ (u @ e) >= (u @ e).square().sum() - 1e-10).all()


def test_similarity_by_hand() -> None:
    values = torch.tensor([[1.0, 0.0], [0.0, 2.0]])
    near = similarity(values, 0.5)
    assert near.flatten().tolist() == pytest.approx([0.880797, 0.119203, 0.119203, 0.880797], abs=1e-6)
    assert similarity(values, 1e9).flatten().tolist() == pytest.approx([0.5] * 4, abs=1e-6)
    assert (similarity(values, 1e-3) @ values).equal(values)
    opposed = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 0.0]])
    weights = similarity(opposed, 1.0)
    assert weights[2].tolist() == [0, 0, 1]  # nothing is its direction: it keeps itself
    expected = [math.e, 1 / math.e, 1]
    assert weights[0].tolist() == pytest.approx([w / sum(expected) for w in expected], abs=1e-6)
    assert weights.sum(1).tolist() == pytest.approx([1, 1, 1], abs=1e-6)


def test_consistency_by_hand() -> None:
    """Two layers of 2 and 1 channels: a shift of means is squared per channel, variances are compared in sum."""
    at = torch.tensor
    layers = consistency(
        at([1.0, 3.0, 5.0]),
        at([2.0, 4.0, 1.0]),
        at([0.0, 3.0, 3.0]),
        at([4.0, 2.0, 4.0]),
        channels(2, 1).float(),
    )
    assert layers.tolist() == [0.5, 4 + 9]
    same = at([1.0, 3.0, 5.0]), at([2.0, 4.0, 1.0])
    assert consistency(*same, *same, channels(2, 1).float()).tolist() == [0, 0]


def test_moments_and_running_statistics_by_hand() -> None:
    x = torch.tensor([[[[0.0, 2.0]], [[1.0, 1.0]]], [[[4.0, 2.0]], [[1.0, 5.0]]]])  # [B 2, T 2, 1, 2]
    average, variance = moments(x)
    assert average.tolist() == [2, 2] and variance.tolist() == [2, 3]
    assert moments(x.flatten(1)[:, :2])[1].tolist() == [4, 0]
    assert moments(x.bfloat16())[0].dtype == torch.float32
    before, batch = torch.tensor([1.0], requires_grad=True), torch.tensor([2.0], requires_grad=True)
    new = running(before, batch)
    assert new.tolist() == pytest.approx([1.1])
    new.backward()
    assert before.grad is None and batch.grad is not None and batch.grad.tolist() == pytest.approx([0.1])


def test_depth_weights_by_hand() -> None:
    ends = depth_weights(torch.arange(7), 0.001)[[0, -1]].tolist()
    assert ends == pytest.approx([0.142429, 0.143286], abs=1e-6)
    assert depth_weights(torch.arange(7), 1.0)[-1].item() == pytest.approx(0.632698, abs=1e-6)
    torch.testing.assert_close(depth_weights(torch.arange(1, 8), 0.3), depth_weights(torch.arange(7), 0.3))


# ---- the round


def dse_blocks(federation: Federation) -> list[DSEBlock]:
    model = federation.turn.networks["first"].model
    return [module for module in model.modules() if isinstance(module, DSEBlock)]


def entries(federation: Federation, kind: str) -> list[str]:
    index = getattr(federation.state, kind)
    return [entry.name for entry in federation.layout.entries if index.mask[entry.slice].all()]


def test_classes_of_tensors() -> None:
    federation = small(RUN, method("fdse"))
    tails = {kind: sorted({name.partition("conv.")[2] for name in entries(federation, kind) if "stage" in name})
             for kind in ("shared", "personal", "local")}  # fmt: skip
    assert tails == {
        "shared": ["dfe.bn.bias", "dfe.bn.running_mean", "dfe.bn.running_var", "dfe.bn.weight", "dfe.conv.bias", "dfe.conv.weight"],
        "personal": ["dse.bias.bias", "dse.bn.bias", "dse.bn.weight", "dse.conv.weight"],
        "local": ["dse.bn.running_mean", "dse.bn.running_var"],
    }  # fmt: skip
    assert {"head.weight", "head.bias"} <= set(entries(federation, "shared"))
    assert len(federation.layout.entries) == sum(len(entries(federation, kind)) for kind in tails)
    with_shared_bias = small(RUN, method("fdse", concat_bias="shared"))
    assert "stages.stage1.conv.dfe.bias.bias" in entries(with_shared_bias, "shared")


def test_what_travels() -> None:
    """Shared and personal entries, both ways; neither BN_DSE's statistics nor integer counters."""
    federation = finish(small(RUN, method("fdse")))
    sent = 4 * (federation.state.shared.size + federation.state.personal.size)
    cost = {
        (row["round"], row["metric"]): row["value"]
        for row in federation.records.rows
        if row["stage"] == "cost"
    }
    assert cost[1, "bytes_up"] == cost[1, "bytes_down"] == cost[2, "bytes_up"] == 3 * sent
    layout, chosen = alexnet({})
    travels = layout.size - chosen.local(layout).size
    assert 4 * travels == 26_061_736  # of 26,074,648 in a complete state dict (24.867 MiB, Table 4)


def test_a_network_without_blocks_is_refused() -> None:
    with pytest.raises(FedshiftError, match="'resnet18' has no layer to decompose"):
        method("fdse").model(get("models", "resnet18")(2, 32))


@pytest.mark.parametrize("hp", [{"tau": 0.0}, {"lam": -1.0}, {"G": 0}, {"consensus": "off"}, {"lamb": 1.0}])
def test_impossible_parameters_are_refused(hp: dict[str, Any]) -> None:
    with pytest.raises(FedshiftError, match="of fdse"):
        method("fdse", **hp)


def test_shared_trainable_tensors_of_a_block_are_one_slice() -> None:
    federation = small(RUN, method("fdse"))
    parts = fdse.Parts(federation.server, federation.method.hp)
    assert len(parts.shared) == 5 and len(parts.personal) == 4
    assert all(isinstance(at, slice) for at in [*parts.shared, *parts.personal])
    tensors = fdse.Parts(federation.server, fdse.Params(consensus="tensor", similarity="tensor"))
    assert len(tensors.shared) == 4 * 4 + 2 and len(tensors.personal) == 4 * 4


def spied(federation: Federation, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Tensor]]:
    """Run to the end; for every aggregation what the server had, what came, and what it and the clients have then."""
    seen: list[dict[str, Tensor]] = []
    aggregate = fdse.FDSE.aggregate

    def spy(self: fdse.FDSE, S: Any, rows: Tensor, p: Tensor, up: Any) -> None:
        seen.append({"base": S.row.clone(), "rows": rows.clone(), "p": p})
        aggregate(self, S, rows, p, up)
        seen[-1] |= {"row": S.row.clone(), "mixed": rows.clone()}

    monkeypatch.setattr(fdse.FDSE, "aggregate", spy)
    finish(federation)
    return seen


def test_server_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eq. 8 from what was broadcast, one problem a block and one for the head; Eq. 9 a block; statistics by plain mean, unequal sizes or not."""
    samples, held, target = images(3)
    held[0] = type(held[0])(held[0].train[:5], held[0].val, held[0].test)
    federation = Federation(
        RUN, method("fdse", tau=0.3), lambda: get("models", "digits_cnn")(2, 32), samples, held, target
    )
    L = federation.layout
    for one in spied(federation, monkeypatch):
        rows, row = one["rows"], one["row"]
        for name in [f"stages.stage{i}.conv" for i in (1, 2, 3, 4)] + ["head"]:
            block = L.under(name)
            at = (block & federation.state.shared & L.trainable).at
            expected = one["base"][at] + consensus(rows[:, at] - one["base"][at])
            torch.testing.assert_close(row[at], expected, rtol=0, atol=0)
            assert not row[at].equal(rows[:, at].mean(0))
            at = (block & federation.state.personal).at
            if name != "head":
                torch.testing.assert_close(
                    one["mixed"][:, at], similarity(rows[:, at], 0.3) @ rows[:, at], rtol=0, atol=0
                )
                assert not one["mixed"][0, at].equal(one["mixed"][1, at])
        statistics = (federation.state.shared & ~L.trainable).at
        torch.testing.assert_close(row[statistics], rows[:, statistics].mean(0))
        assert one["p"][0] < one["p"][1]
        assert rows[:, federation.state.local.at].isnan().all()


def test_clients_get_the_mixed_values_and_keep_their_statistics(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the next round: the global shared tensors, their own row of Eq. 9, and BN_DSE's statistics as they left them."""
    federation = small(RUN, method("fdse"))
    received: dict[tuple[int, int], Tensor] = {}
    left: dict[tuple[int, int], Tensor] = {}
    train = Client.train

    def spy(self: Client) -> Tensor:
        received[self.t, self.k] = self.received.clone()
        result = train(self)
        left[self.t, self.k] = self.row.clone()
        return result

    monkeypatch.setattr(Client, "train", spy)
    first = spied(federation, monkeypatch)[0]
    state = federation.state
    for k in range(3):
        assert received[1, k][state.shared.at].equal(first["row"][state.shared.at])
        assert received[1, k][state.personal.at].equal(first["mixed"][k, state.personal.at])
        assert not received[1, k][state.personal.at].equal(left[0, k][state.personal.at])
        assert received[1, k][state.local.at].equal(left[0, k][state.local.at])
        assert received[0, k].equal(received[0, 0])  # one start, personal tensors included
    assert not left[0, 0][state.local.at].equal(left[0, 1][state.local.at])


def test_the_evaluated_model_is_the_one_after_training() -> None:
    federation = small(RUN, method("fdse"))
    assert federation.scores.shown == ("personal", "post_train")


@pytest.mark.parametrize("form", ["paper", "code_v1", "code_head"])
def test_the_term_is_in_the_loss_from_its_round_on(form: str) -> None:
    """The same first step with and without; lam = 0 and "none" are the same run bit for bit."""

    def losses(**hp: Any) -> list[float]:
        run = finish(small(spec(local={"batch": 12}, federation={"rounds": 2}), method("fdse", **hp)))
        return [row["value"] for row in run.records.rows if row["split"] == "train"]

    with_term, without = losses(lam=1.0, consistency=form), losses(lam=0.0)
    assert with_term[:3] == without[:3]
    assert with_term[3] != without[3]
    assert losses(consistency="none") == without
    from_the_start = losses(lam=1.0, consistency=form, consistency_from_round=1)
    assert from_the_start[0] != without[0]


def aligned(beta: float = 0.001) -> tuple[nn.Module, Alignment, Tensor]:
    torch.manual_seed(0)
    model = method("fdse").model(get("models", "digits_cnn")(2, 32))
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_()
            module.running_var.uniform_(0.5, 2)
    return model, Alignment(model, beta), torch.randn(6, 3, 32, 32)


def test_the_term_of_a_network_by_hand() -> None:
    """Three batches: the goal stays, the running statistics go on from it; for means they are BN_DFE's own."""
    model, alignment, x = aligned(beta=0.5)
    blocks = [module for module in model.modules() if isinstance(module, DSEBlock)]
    goal = [(b.dfe.bn.running_mean.clone(), b.dfe.bn.running_var.clone()) for b in blocks]
    own_variance = [variance for _, variance in goal]
    for batch in (x, x + 1, 2 * x):
        model(batch)
        got = alignment.term()
        expected = 0.0
        for depth, block in enumerate(blocks):
            flat = block.deskewed.detach().transpose(0, 1).flatten(1)
            own_variance[depth] = 0.9 * own_variance[depth] + 0.1 * flat.var(1, correction=0)
            shift = (block.dfe.bn.running_mean - goal[depth][0]).square().mean()
            spread = (own_variance[depth].sum() - goal[depth][1].sum()) / len(flat)
            expected += math.exp(0.5 * depth) / sum(map(math.exp, (0, 0.5, 1, 1.5))) * (shift + spread**2)
        assert got.item() == pytest.approx(float(expected), rel=1e-4)


def test_the_term_reaches_every_block_and_fits_finite_differences() -> None:
    model, alignment, x = aligned()
    model.double()
    alignment = Alignment(model, 0.001)
    model(x.double())
    alignment.term().backward()
    for name, parameter in model.named_parameters():
        if name.endswith(("dse.conv.weight", "dse.bias.bias", "dse.bn.weight", "dfe.conv.weight")):
            assert parameter.grad is not None and parameter.grad.abs().max() > 0, name
        if name.startswith("head"):
            assert parameter.grad is None
    named = dict(model.named_parameters())
    for tail in ("dse.bias.bias", "dse.conv.weight", "dse.bn.weight"):
        one = named[f"stages.stage4.conv.{tail}"]
        steps = []
        for step in (1e-5, -2e-5):
            with torch.no_grad():
                one[3] += step
                again = Alignment(model, 0.001)
                again.goal = again.own = alignment.goal
                model(x.double())
                steps.append(again.term().item())
        with torch.no_grad():
            one[3] += 1e-5
        assert one.grad is not None
        assert one.grad[3].sum().item() == pytest.approx((steps[0] - steps[1]) / 2e-5, rel=1e-3)


def test_the_term_is_reckoned_in_fp32_under_autocast() -> None:
    model, alignment, x = aligned()
    model(x)
    exact = alignment.term()
    model, alignment, x = aligned()
    with torch.autocast("cpu", torch.bfloat16):
        model(x)
        near = alignment.term()
    assert near.dtype == torch.float32
    assert near.item() == pytest.approx(exact.item(), rel=0.02)


def test_descent_of_personal_tensors_on_the_term_alone() -> None:
    """What adaptation at test time does."""
    model, _, x = aligned()
    steps = []
    own = [parameter for name, parameter in model.named_parameters() if ".dse." in name]
    optimizer = torch.optim.SGD(own, lr=200.0)
    goal = Alignment(model, 0.001).goal
    for _ in range(10):
        alignment = Alignment(model, 0.001)
        alignment.goal = alignment.own = goal
        model(x)
        term = alignment.term()
        optimizer.zero_grad()
        term.backward()
        optimizer.step()
        steps.append(term.item())
    assert steps == sorted(steps, reverse=True) and steps[-1] < 0.6 * steps[0]


# ---- switches


def test_without_consensus_the_server_averages_by_size(monkeypatch: pytest.MonkeyPatch) -> None:
    one = spied(small(RUN, method("fdse", consensus="none")), monkeypatch)[0]
    federation = small(RUN, method("fdse"))
    at = (federation.state.shared & federation.layout.trainable).at
    expected = (one["p"][:, None] * one["rows"][:, at]).sum(0)
    torch.testing.assert_close(one["row"][at], expected)


def test_without_similarity_nobodys_tensors_change_on_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    at = small(RUN, method("fdse")).state.personal.at
    for one in spied(small(RUN, method("fdse", similarity="none")), monkeypatch):
        assert one["mixed"][:, at].equal(one["rows"][:, at])
    with monkeypatch.context() as patch:
        one = spied(small(RUN, method("fdse", similarity="mean")), patch)[0]
        torch.testing.assert_close(one["mixed"][2, at], one["rows"][:, at].mean(0))
    near = finish(small(RUN, method("fdse", similarity="module", tau=1e-7)))
    alone = finish(small(RUN, method("fdse", similarity="none")))
    torch.testing.assert_close(near.state.own, alone.state.own, rtol=1e-4, atol=1e-5)


def test_all_switched_off_is_fedavg_of_the_decomposed_network() -> None:
    """Bit for bit, since BN_DSE's statistics, which stay local, do not enter training."""
    off = method("fdse", consensus="none", similarity="mean", consistency="none")
    samples, held, target = images(3)

    def build() -> Any:
        return method("fdse").model(get("models", "digits_cnn")(2, 32))

    fedavg = finish(Federation(RUN, method("fedavg"), build, samples, held, target)).state.row
    state = finish(small(RUN, off)).state
    assert state.row[state.shared.at].equal(fedavg[state.shared.at])
    assert state.own[:, state.personal.mask[state.kept.mask]].equal(fedavg[state.personal.at].expand(3, -1))


def test_one_client_and_twins(monkeypatch: pytest.MonkeyPatch) -> None:
    """One client: the new global tensors are its own, but for rounding. Twins, whose batches differ in order alone: as one."""
    one = spied(small(spec(federation={"rounds": 1}), method("fdse"), clients=1), monkeypatch)[0]
    federation = small(RUN, method("fdse"))
    shared, personal = federation.state.shared.at, federation.state.personal.at
    torch.testing.assert_close(one["row"][shared], one["rows"][0, shared], rtol=0, atol=1e-6)
    torch.testing.assert_close(one["mixed"][0, personal], one["rows"][0, personal], rtol=0, atol=0)
    samples, held, target = images(1)
    run = spec(federation={"rounds": 1}, local={"batch": 50})
    twins, alone = (
        finish(
            Federation(
                run, method("fdse"), lambda: get("models", "digits_cnn")(2, 32), samples, clients, target
            )
        )
        for clients in (held * 2, held)
    )
    moved = (alone.state.row - federation.state.row)[shared].norm()
    assert (twins.state.row - alone.state.row)[shared].norm() < 0.01 * moved


def test_no_update_and_no_training_leave_everything_as_it_was() -> None:
    start = small(RUN, method("fdse"))
    stopped = finish(small(spec(local={"lr": 0.0}, federation={"rounds": 2}), method("fdse")))
    trainable = (start.state.shared & start.layout.trainable).at
    assert stopped.state.row[trainable].equal(start.state.row[trainable])
    assert stopped.state.own.isfinite().all()


def test_partial_participation() -> None:
    run = spec(federation={"rounds": 3, "participation": 0.67})
    federation = finish(small(run, method("fdse")))
    assert federation.state.row.isfinite().all() and federation.state.own.isfinite().all()


@pytest.mark.parametrize("hp", [
    {"consensus": "tensor", "similarity": "tensor", "consistency": "code_v1", "padding": "v1"},
    {"consensus": "tensor", "similarity": "tensor", "consistency": "code_head", "activation": "none", "fc_identity": True, "concat_bias": "shared"},
    {"G": 4, "dw": 1, "concat_bias": "none"},
])  # fmt: skip
def test_other_readings_train(hp: dict[str, Any]) -> None:
    run = spec(local={"precision": "bf16", "clip": 10.0}, federation={"rounds": 3})
    federation = finish(small(run, method("fdse", **hp)))
    assert federation.state.row.isfinite().all() and federation.state.own.isfinite().all()


def test_unseen_domain() -> None:
    """Means over the clients of what they have after the round: personal tensors as mixed, statistics as they left them; or the start."""
    federation = finish(small(RUN, method("fdse")))
    start = small(RUN, method("fdse")).state.row
    state, row = federation.state, federation.method.unseen(federation.server)[0]
    assert row[state.shared.at].equal(state.row[state.shared.at])
    torch.testing.assert_close(row[state.kept.at], state.own.mean(0))
    assert not row[state.kept.at].equal(start[state.kept.at])
    first = small(RUN, method("fdse", unseen_dse="init"))
    kept = finish(first).method.unseen(first.server)[0][state.kept.at]
    assert kept.equal(start[state.kept.at])


def test_it_learns_two_brightnesses() -> None:
    federation = finish(small(spec(local={"epochs": 2}, federation={"rounds": 12}), method("fdse")))
    last = [row["value"] for row in federation.records.rows
            if (row["round"], row["stage"], row["metric"], row["split"]) == (12, "post_train", "accuracy", "test")]  # fmt: skip
    assert len(last) == 3 and sum(last) / 3 >= 0.75


def test_only_this_method_loads_scipy() -> None:
    code = "import sys; from tests.federation.toys import *; finish(small(spec(), method('fedavg'))); assert 'scipy' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
