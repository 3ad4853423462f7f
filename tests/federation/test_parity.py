"""The methods against worked-out values on quadratics, through the round loop."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from fedshift.federation.batches import schedule
from fedshift.federation.local import Client
from fedshift.federation.loop import Federation
from fedshift.federation.samples import ClientData, Samples
from fedshift.models.base import Model, Out
from tests.federation.toys import Untouched, finish, method, quadratics, small, spec
from tests.reference import Reference

FAMILY = "fedavg_family_quadratic.json"


def federation(name: str, rounds: int, sizes: list[int] | None = None, **hp: float) -> Federation:
    """The reference's two clients under a method."""
    ref = Reference(FAMILY)
    h, c = ref.given("h").tolist(), ref.given("c").tolist()
    start, lr, steps = ref.given("w0"), ref.given("eta"), ref.given("K")
    return quadratics(method(name, **hp), h, c, start, lr, steps, rounds, sizes)


def after_training(run: Federation, monkeypatch: pytest.MonkeyPatch) -> list[list[float]]:
    """Run to the end; the trained w of every client, a list a round."""
    seen: list[float] = []
    trained = Client.train

    def spy(self: Client, *args: object) -> torch.Tensor:
        result = trained(self, *args)  # type: ignore[arg-type]
        seen.append(self.w.item())
        return result

    monkeypatch.setattr(Client, "train", spy)
    finish(run)
    return [seen[i : i + 2] for i in range(0, len(seen), 2)]


@pytest.mark.parity
def test_fedavg(monkeypatch: pytest.MonkeyPatch) -> None:
    ref, run = Reference(FAMILY), federation("fedavg", 1)
    ref.equals("local", after_training(run, monkeypatch)[0])
    ref.equals("fedavg_uniform", run.server.row[0])
    ref.equals("fedavg_weighted_3_1", finish(federation("fedavg", 1, sizes=[3, 1])).server.row[0])


@pytest.mark.parity
def test_fedprox(monkeypatch: pytest.MonkeyPatch) -> None:
    for mu, expected in Reference(FAMILY).given("fedprox").items():
        with monkeypatch.context() as patch:
            got = after_training(federation("fedprox", 1, mu=float(mu)), patch)
        assert got == [pytest.approx(expected, rel=0, abs=1e-9)]


@pytest.mark.parity
def test_scaffold(monkeypatch: pytest.MonkeyPatch) -> None:
    ref = Reference(FAMILY)
    for t in map(int, ref.keys("scaffold")):
        with monkeypatch.context() as patch:
            run = federation("scaffold", t + 1)
            ref.equals(f"scaffold.{t}.y", after_training(run, patch)[-1])
        ref.equals(f"scaffold.{t}.x", run.server.row[0])
        ref.equals(f"scaffold.{t}.c", run.server.slot.c[0])
        ref.equals(f"scaffold.{t}.c", run.state.slots["ck"].mean())
        ref.equals(f"scaffold.{t}.ci", run.state.slots["ck"].flatten())
    same = finish(federation("scaffold", 1)).server.row.equal(finish(federation("fedavg", 1)).server.row)
    ref.equals("scaffold_round1_equals_fedavg", same)


@pytest.mark.parity
def test_ditto() -> None:
    ref = Reference(FAMILY)
    for t in map(int, ref.keys("ditto")):
        run = finish(federation("ditto", t + 1, lam=ref.given("ditto_lambda")))
        ref.equals(f"ditto.{t}.global_", run.server.row[0])
        ref.equals(f"ditto.{t}.personal", run.state.slots["v"].flatten())


def test_limits_hold_bit_for_bit() -> None:
    run = spec(local={"clip": 1.0, "momentum": 0.9}, federation={"weights": "uniform", "rounds": 1})
    fedavg = finish(small(run, method("fedavg"))).server.row
    assert finish(small(run, method("fedprox", mu=0.0))).server.row.equal(fedavg)
    assert finish(small(run, method("scaffold"))).server.row.equal(fedavg)
    assert not finish(small(run, method("fedprox", mu=1.0))).server.row.equal(fedavg)


def test_ditto_without_pull_is_local_training() -> None:
    run = spec(federation={"rounds": 2}, local={"optimizer_state": "persist", "momentum": 0.9})
    ditto = finish(small(run, method("ditto", lam=0.0)))
    local = finish(small(run, method("local")))
    assert ditto.state.slots["v"].equal(local.state.own)
    assert not finish(small(run, method("ditto", lam=1.0))).state.slots["v"].equal(local.state.own)


class Normed(Model):
    """One batch-normalisation layer."""

    name = "normed"
    indicator = "norm"

    def __init__(self) -> None:
        super().__init__(2, 1)
        self.norm = nn.BatchNorm1d(2, dtype=torch.float64)

    def forward(self, x: torch.Tensor, after: object = None) -> Out:
        return Out(x, self.norm(x))


@pytest.mark.parity
def test_batch_norm_statistics_of_fedbn_follow_the_reference() -> None:
    """One local epoch of two batches moves a client's own statistics: r <- .9 r + .1 m, with the unbiased variance."""
    ref = Reference("bn_adaptation.json")
    values, nobody = ref.given("batches"), torch.empty(0, dtype=torch.int64)
    run = spec(local={"batch": 4, "lr": 0.0}, federation={"rounds": 1})
    order = schedule(8, run.local, run.seed, 0, 0, batch_norm=True).order
    index = order.argsort()  # so that the drawn order shows the batches as the reference has them
    samples = Samples(values.flatten(0, 1), torch.zeros(8, dtype=torch.int64), Untouched(), lambda x: x)
    made = Federation(
        run,
        method("fedbn"),
        Normed,
        samples,
        [ClientData(index, nobody, nobody)],
        nobody,
    )
    finish(made)
    own = dict(zip(("weight", "bias", "mean", "var"), made.state.own[0].split(2), strict=True))
    ref.equals("momentum", made.turn.networks["first"].model.norm.momentum)
    ref.equals("running_mean_after_1_epoch", own["mean"])
    ref.equals("running_var_after_1_epoch", own["var"])


CALLED = {
    "fedavg": ["fedshift.federation.method.mean"],
    "fedprox": ["fedshift.methods.fedprox.FedProx.grad"],
    "scaffold": [f"fedshift.methods.scaffold.Scaffold.{hook}" for hook in ("grad", "end", "aggregate")]
    + ["fedshift.methods.scaffold.mean"],
    "ditto": ["fedshift.methods.ditto.Ditto.step", "fedshift.federation.method.mean"],
    "fedbn": ["fedshift.methods.fedbn.FedBN.local", "fedshift.methods.fedbn.FedBN.unseen"],
}


@pytest.mark.parametrize(
    ("name", "function"), [(name, function) for name, functions in CALLED.items() for function in functions]
)
def test_the_loop_calls_what_is_tested(name: str, function: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Called(Exception):
        pass

    def broken(*args: object, **options: object) -> None:
        raise Called

    finish(small(spec(), method(name)))
    monkeypatch.setattr(function, broken)
    with pytest.raises(Called):
        finish(small(spec(), method(name)))
