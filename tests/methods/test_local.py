"""Local training: nothing is received after the start, nobody else matters, the optimiser is the protocol's."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from fedshift.experiments.expand import expand
from fedshift.experiments.load import load
from fedshift.federation.loop import Federation
from fedshift.storage.workspace import Workspace
from fedshift.testing.toys import finish, method, quadratics, small, spec
from tests.conftest import ROOT

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


@pytest.mark.parametrize(("state", "expected"), [("reset", [0.81, 1.72]), ("persist", [0.72, 2.08])])
def test_the_optimiser_is_the_protocols(state: str, expected: list[float]) -> None:
    """One step a round, momentum .9. Anew: 1 -> .9 -> .81 and 1 -> 1.4 -> 1.4 + .1 * 3.2; lasting, .9 - .1 (.9 + .9) and 1.4 + .1 (.9 * 4 + 3.2)."""
    chosen = {"momentum": 0.9, "optimizer_state": state}
    run = quadratics(method("local"), *PLACE[:4], steps=1, rounds=2, local=chosen)
    assert own(run) == pytest.approx(expected)


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
    """Statistics too, by either kind of optimiser."""
    found = []
    for state in ("reset", "persist"):
        run = spec(local={"momentum": 0.9, "optimizer_state": state}, federation={"rounds": 2})
        found.append(finish(small(run, method("local"), clients=1)).state.own[0])
        assert found[-1].equal(finish(small(run, method("fedavg"), clients=1)).server.row)
    assert not found[0].equal(found[1])


def test_released_is_one_optimiser_at_a_constant_rate(tmp_path: Path) -> None:
    (tmp_path / "reference").symlink_to(ROOT / "reference")
    (tmp_path / "experiments").mkdir()
    told = {
        "title": "Both",
        "protocol": "fdse",
        "spec": {"data": {"dataset": "office_caltech10"}},
        "methods": {"local": None, "released": {"preset": "released", "method": {"name": "local"}}},
        "axes": {"seed": [2]},
    }
    (tmp_path / "experiments" / "both.yaml").write_text(yaml.safe_dump(told))
    plain, released = (
        cell.spec.local for cell in expand(Workspace(tmp_path), load(Workspace(tmp_path), "both"))
    )
    assert (plain.optimizer_state, plain.schedule.kind) == ("reset", "exponential")
    assert (released.optimizer_state, released.schedule.kind) == ("persist", "constant")
    assert plain.model_copy(update={"optimizer_state": "persist", "schedule": released.schedule}) == released


def test_every_client_s_model_is_tested_on_the_unseen_domain() -> None:
    run = small(spec(federation={"rounds": 1}), method("local"), clients=2)
    finish(run)
    assert run.method.unseen(run.server).equal(run.state.own)
    assert not run.state.own[0].equal(run.state.own[1])
    assert run.evaluator.reported == ("personal", "post_train")
    target = [row for row in run.records.rows if row["split"] == "target" and row["round"] == 1]
    assert {(row["member"], row["metric"]) for row in target} == {
        (k, metric) for k in (0, 1) for metric in ("accuracy", "loss")
    }
