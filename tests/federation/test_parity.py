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
from tests.conftest import vectors
from tests.federation.toys import Untouched, finish, method, quadratics, small, spec

CLOSE = {"rel": 0, "abs": 1e-9}
REFERENCE = vectors("fedavg_family_quadratic")


def federation(name: str, rounds: int, sizes: list[int] | None = None, **hp: float) -> Federation:
    """The reference's two clients under a method."""
    start, lr, steps = REFERENCE["w0"], REFERENCE["eta"], REFERENCE["K"]
    return quadratics(method(name, **hp), REFERENCE["h"], REFERENCE["c"], start, lr, steps, rounds, sizes)


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


def test_fedavg(monkeypatch: pytest.MonkeyPatch) -> None:
    run = federation("fedavg", 1)
    assert after_training(run, monkeypatch) == [pytest.approx(REFERENCE["local"], **CLOSE)]
    assert run.server.row.item() == pytest.approx(REFERENCE["fedavg_uniform"], **CLOSE)
    weighted = finish(federation("fedavg", 1, sizes=[3, 1]))
    assert weighted.server.row.item() == pytest.approx(REFERENCE["fedavg_weighted_3_1"], **CLOSE)


@pytest.mark.parametrize("mu", REFERENCE["fedprox"])
def test_fedprox(mu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert after_training(federation("fedprox", 1, mu=float(mu)), monkeypatch) == [
        pytest.approx(REFERENCE["fedprox"][mu], **CLOSE)
    ]


def test_scaffold(monkeypatch: pytest.MonkeyPatch) -> None:
    for rounds, expected in enumerate(REFERENCE["scaffold"], start=1):
        with monkeypatch.context() as patch:
            run = federation("scaffold", rounds)
            assert after_training(run, patch)[-1] == pytest.approx(expected["y"], **CLOSE)
        assert run.server.row.item() == pytest.approx(expected["x"], **CLOSE)
        assert run.server.slot.c.item() == pytest.approx(expected["c"], **CLOSE)
        assert run.state.slots["ck"].flatten().tolist() == pytest.approx(expected["ci"], **CLOSE)
        assert run.state.slots["ck"].mean().item() == pytest.approx(expected["c"], **CLOSE)
    assert REFERENCE["scaffold_round1_equals_fedavg"] is True
    assert finish(federation("scaffold", 1)).server.row.equal(finish(federation("fedavg", 1)).server.row)


def test_ditto() -> None:
    for rounds, expected in enumerate(REFERENCE["ditto"], start=1):
        run = finish(federation("ditto", rounds, lam=REFERENCE["ditto_lambda"]))
        assert run.server.row.item() == pytest.approx(expected["global_"], **CLOSE)
        assert run.state.slots["v"].flatten().tolist() == pytest.approx(expected["personal"], **CLOSE)


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


def test_batch_norm_statistics_of_fedbn_follow_the_reference() -> None:
    """One local epoch of two batches moves a client's own statistics: r <- .9 r + .1 m, with the unbiased variance."""
    reference = vectors("bn_adaptation")
    values, nobody = (
        torch.tensor(reference["batches"], dtype=torch.float64),
        torch.empty(0, dtype=torch.int64),
    )
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
    assert reference["momentum"] == 0.1
    assert own["mean"].tolist() == pytest.approx(reference["running_mean_after_1_epoch"], **CLOSE)
    assert own["var"].tolist() == pytest.approx(reference["running_var_after_1_epoch"], **CLOSE)


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
