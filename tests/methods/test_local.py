"""Local training: nothing is received after the start, one optimiser for the whole run, nobody else matters."""

from __future__ import annotations

import pytest

from fedshift.federation.loop import Federation
from tests.federation.toys import finish, method, quadratics, small, spec

# Three steps of rate .1 a round: client 0 (h 1, c 0) has w -> .729 w, client 1 (h 2, c 3) has its distance 3 - w -> .512 (3 - w).
PLACE = [1.0, 2.0], [0.0, 3.0], 1.0, 0.1, 3


def own(run: Federation) -> list[float]:
    """The clients' models after the run, which must have left the server's as it was."""
    start = run.server.row.clone()
    finish(run)
    assert run.server.row.equal(start)
    return run.state.own.flatten().tolist()


def test_two_rounds_by_hand() -> None:
    """.729^2 and 3 - 2 * .512^2: everybody goes on where it stopped, however much others hold."""
    run = quadratics(method("local"), *PLACE, rounds=2, sizes=[3, 1])
    assert own(run) == pytest.approx([0.531441, 2.475712])


def test_one_optimiser_for_the_whole_run() -> None:
    """One step a round, momentum .9. Client 0: 1 -> .9 -> .9 - .1 (.9 + .9). Client 1: 1 -> 1.4 -> 1.4 + .1 (.9 * 4 + 3.2)."""
    run = quadratics(method("local"), *PLACE[:4], steps=1, rounds=2, local={"momentum": 0.9})
    assert own(run) == pytest.approx([0.72, 2.08])


def test_nobody_else_matters() -> None:
    """The same model bit for bit alone, beside another client, and beside it in the other order."""
    both, turned = (
        own(quadratics(method("local"), h, c, 1.0, 0.1, 3, 2))
        for h, c in (([1.0, 2.0], [0.0, 3.0]), ([2.0, 1.0], [3.0, 0.0]))
    )
    alone = own(quadratics(method("local"), [2.0], [3.0], 1.0, 0.1, 3, 2))
    assert both[::-1] == turned
    assert alone == both[1:]


def test_who_is_away_stands_still() -> None:
    run = quadratics(method("local"), *PLACE, rounds=5, federation={"participation": 0.5})
    models = own(run)
    first, second = run.state.visits
    assert first + second == 5
    assert min(first, second) > 0
    assert models == pytest.approx([0.729**first, 3 - 2 * 0.512**second])


def test_it_is_fedavg_of_one_client_bit_for_bit() -> None:
    """Statistics too; FedAvg's optimiser must be told to last."""
    run = spec(local={"momentum": 0.9}, federation={"rounds": 2})
    lasting = spec(local={"momentum": 0.9, "optimizer_state": "persist"}, federation={"rounds": 2})
    local = finish(small(run, method("local"), clients=1)).state.own[0]
    assert local.equal(finish(small(lasting, method("fedavg"), clients=1)).server.row)
    assert not local.equal(finish(small(run, method("fedavg"), clients=1)).server.row)


def test_every_client_s_model_is_tested_on_the_unseen_domain() -> None:
    run = small(spec(federation={"rounds": 1}), method("local"), clients=2)
    finish(run)
    assert run.method.unseen(run.server).equal(run.state.own)
    assert not run.state.own[0].equal(run.state.own[1])
    assert run.scores.shown == ("personal", "post_train")
    target = [row for row in run.records.rows if row["split"] == "target" and row["round"] == 1]
    assert {(row["row"], row["metric"]) for row in target} == {
        (k, metric) for k in (0, 1) for metric in ("accuracy", "loss")
    }
