"""FedProx: the proximal term on quadratics by hand and against the reference, its place in a step, its limit."""

from __future__ import annotations

import pytest
import torch

from fedshift.federation.batches import participants
from fedshift.methods.fedprox import proximal
from fedshift.testing.toys import finish, method, quadratics, small, spec, trained
from tests.reference import Reference

# Three steps of rate .1 with mu 1 from x: client 0 (h 1, c 0) goes x -> .9 x -> .82 x -> .756 x, client 1 (h 2, c 3) has its distance
# d = 3 - x go d -> .8 d -> .66 d -> .562 d; from 1 they end at .756 and 1.876.
PLACE = [1.0, 2.0], [0.0, 3.0], 1.0, 0.1, 3
ENDS = (lambda x: 0.756 * x, lambda x: 3 - 0.562 * (3 - x))


@pytest.mark.parity
def test_a_round_follows_the_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    ref = Reference("fedavg_family_quadratic.json")
    place = [ref.given(name) for name in ("h", "c", "w0", "eta", "K")]
    for mu, expected in ref.given("fedprox").items():
        turns = trained(quadratics(method("fedprox", mu=float(mu)), *place, rounds=1), monkeypatch)
        assert [row.item() for _, row in turns] == pytest.approx(expected, rel=0, abs=1e-9)


def test_the_gradient_by_hand() -> None:
    """(1, -2) + 2 (.5, .25), in place."""
    g = torch.tensor([1.0, -2.0])
    assert proximal(g, torch.tensor([0.5, 0.25]), 2.0) is g
    assert g.tolist() == [2.0, -1.5]


@pytest.mark.parametrize(
    ("rounds", "expected"),
    [
        (1, 1.316),  # (.756 + 1.876) / 2
        (
            2,
            1.524244,
        ),  # (.756 * 1.316 + 3 - .562 * 1.684) / 2: the pull is towards 1.316, no longer towards 1
    ],
)
def test_rounds_by_hand(rounds: int, expected: float) -> None:
    run = finish(quadratics(method("fedprox", mu=1.0), *PLACE, rounds=rounds))
    assert run.server.row.item() == pytest.approx(expected, rel=1e-12)


def test_the_pull_is_towards_what_the_client_received(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of two clients a round."""
    run = quadratics(method("fedprox", mu=1.0), *PLACE, rounds=4, federation={"participation": 0.5})
    x, seen = 1.0, set()
    for t, (received, row) in enumerate(trained(run, monkeypatch)):
        (k,) = participants(2, 0.5, 0, t)
        seen.add(k)
        assert received.item() == pytest.approx(x, rel=1e-12)
        x = ENDS[k](x)
        assert row.item() == pytest.approx(x, rel=1e-12)
    assert seen == {0, 1}
    assert run.server.row.item() == pytest.approx(x, rel=1e-12)


def test_the_term_is_added_before_clipping() -> None:
    """3 w^2 / 2 from 1, clipped at .5: 1 -> .95, where 3 * .95 - 50 * .05 = .35 is left alone -> .915."""
    run = quadratics(method("fedprox", mu=50.0), [3.0], [0.0], 1.0, 0.1, 2, 1, local={"clip": 0.5})
    assert finish(run).server.row.item() == pytest.approx(0.915, abs=1e-6)


def test_momentum_runs_over_the_whole_gradient() -> None:
    """Gradients 1, .9 - .1 = .8, .77 - .23 = .54 in a momentum of .5: steps of 1, 1.3 and 1.19 times .1."""
    run = quadratics(method("fedprox", mu=1.0), [1.0], [0.0], 1.0, 0.1, 3, 1, local={"momentum": 0.5})
    assert finish(run).server.row.item() == pytest.approx(0.651)


def test_one_step_a_round_is_fedavg_bit_for_bit() -> None:
    """At w^t the term is 0, whatever mu."""
    rows = [
        finish(quadratics(chosen, *PLACE[:4], steps=1, rounds=2)).server.row
        for chosen in (method("fedprox", mu=5.0), method("fedavg"))
    ]
    assert rows[0].equal(rows[1])


def test_without_the_term_it_is_fedavg_bit_for_bit() -> None:
    run = spec(local={"clip": 1.0, "momentum": 0.9}, federation={"rounds": 1})
    row, fedavg, pulled = (
        finish(small(run, chosen, clients=2)).server.row
        for chosen in (method("fedprox", mu=0.0), method("fedavg"), method("fedprox", mu=1.0))
    )
    assert row.equal(fedavg)
    assert not pulled.equal(fedavg)
