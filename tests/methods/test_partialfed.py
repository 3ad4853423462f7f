"""PartialFed (a reconstruction): its gate against the reference, its fixed rules."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from fedshift.federation.batches import generator
from fedshift.federation.loop import Federation
from fedshift.methods.partialfed import gumbel_gate
from fedshift.testing.toys import finish, method, small, spec
from tests.methods import plain
from tests.reference import Reference


@pytest.mark.parity
def test_gate() -> None:
    ref = Reference("partialfed_gumbel.json")
    logits, uniforms = ref.given("logits"), ref.given("uniform")
    ref.equals("gumbel", -(-uniforms.log()).log())
    soft = gumbel_gate(logits, uniforms, ref.given("tau"))
    ref.equals("soft", soft)
    ref.equals("hard", (soft == soft.max()).double())


@pytest.mark.parametrize(("rule", "kept"), [("fix_bn_head", 4 * (16 + 32 + 64 + 64) + 130), ("fix_top", 130)])
def test_fixed_choices(rule: str, kept: int) -> None:
    federation = finish(small(spec(federation={"rounds": 1}), method("partialfed", rule=rule)))
    assert federation.state.local.size == kept
    assert federation.evaluator.reported == ("personal", "post_train")
    rows, local = federation.method.unseen(federation.server), federation.state.local.at
    own = [federation.state.private_row(k) for k in range(3)]
    assert [row.equal(one) for row, one in zip(rows, own, strict=True)] == [True] * 3
    assert not rows[0][local].equal(rows[1][local])


# Four rounds of PartialFed, one of three unequal clients at rest, against the same rounds written out.
LOCAL: dict[str, Any] = {"batch": 5, "lr": 0.1, "momentum": 0.9, "epochs": 2}
RUN = spec(local=LOCAL, federation={"rounds": 5, "participation": 0.67})
HP: dict[str, Any] = {"lr": 20.0, "warm": 4.0, "cold": 0.5, "rounds": 3}
UNITS = [*(f"stages.stage{s}." for s in (1, 2, 3, 4)), "head."]


def chosen_layers(G: plain.Tensors, own: plain.Tensors, gates: Tensor) -> plain.Tensors:
    """Each unit from the global model or the client's own, by gates [5] of 1 or 0."""
    unit = {name: next(i for i, prefix in enumerate(UNITS) if name.startswith(prefix)) for name in G}
    return {name: gates[unit[name]] * G[name] + (1 - gates[unit[name]]) * own[name] for name in G}


def gate_phase(f: Federation, G: plain.Tensors, own: plain.Tensors, gates: Tensor, k: int, t: int) -> Tensor:
    """One epoch over the client's images, both models fixed and in eval mode."""
    tau = HP["warm"] * math.exp(math.log(HP["cold"] / HP["warm"]) * min(1.0, t / HP["rounds"]))
    rng, train = generator(0, "method", t, k), f.clients[k].train
    order = train[torch.randperm(len(train), generator=generator(0, "begin", t, k))]
    for part in (one for one in order.split(LOCAL["batch"]) if len(one) > 1):
        x, y = f.worker.samples.take(part)
        gumbel = -torch.log(-torch.log(torch.rand(5, 2, generator=rng)))
        leaf = gates.clone().requires_grad_()
        soft = torch.softmax((leaf + gumbel) / tau, 1)[:, 0]
        hard = (soft >= 0.5).double() + soft - soft.detach()
        mixed = chosen_layers(G, own, hard)
        fixed = chosen_layers(G, own, hard.detach())
        mixed = {name: fixed[name] if "running" in name else value for name, value in mixed.items()}
        loss = plain.cross_entropy(plain.logits(mixed, plain.pixels(x), False), y)
        gates = gates - HP["lr"] * torch.autograd.grad(loss, leaf)[0]
    return gates


@plain.doubles()
def test_five_rounds() -> None:
    f = plain.federation(RUN, method("partialfed", **HP))
    G = plain.named(f, f.state.row)
    own: list[plain.Tensors | None] = [None for _ in plain.SIZES]
    gates = [torch.zeros(5, 2) for _ in plain.SIZES]
    taken: list[list[bool]] = []
    for t in range(5):
        chosen, up = plain.active(f, t), []
        for k in chosen:
            start, mine = G, own[k]
            if mine is not None:
                gates[k] = gate_phase(f, G, mine, gates[k], k, t)
                of_global = gates[k][:, 0] >= gates[k][:, 1]
                taken.append(of_global.tolist())
                start = chosen_layers(G, mine, of_global.double())
            up.append(plain.trained(f, start, k, t))
            own[k] = up[-1]
        G = plain.average(up, plain.by_size(chosen))
    assert any(any(one) and not all(one) for one in taken)
    finish(f)
    assert (f.state.slots["gates"] - torch.stack(gates)).abs().max() < 1e-7
    assert plain.far(plain.named(f, f.state.row), G) < 1e-8
    for k, mine in enumerate(own):
        assert mine is not None
        assert plain.far(plain.named(f, f.state.slots["last"][k]), mine) < 1e-8
