"""SCAFFOLD: controls and corrected steps on quadratics by hand and against the reference, who takes part, its limits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from fedshift.common.errors import FedshiftError
from fedshift.experiments.expand import expand
from fedshift.experiments.load import load
from fedshift.federation.batches import participants
from fedshift.federation.loop import Federation
from fedshift.methods.scaffold import control_change, corrected, next_control, next_model
from fedshift.spec import RunSpec
from fedshift.storage.workspace import Workspace
from fedshift.testing.toys import finish, method, quadratics, small, spec, trained
from tests.reference import Reference
from tests.tolerance import assert_rounded

# As FedAvg in the first round: client 0 (h 1, c 0) ends at .729, client 1 (h 2, c 3) at 1.976, in three steps of rate .1 from 1.
PLACE = [1.0, 2.0], [0.0, 3.0], 1.0, 0.1, 3
FIRST = [0.271 / 0.3, -0.976 / 0.3]  # their controls after it: (1 - .729) / (3 * .1), (1 - 1.976) / (3 * .1)


def controls(run: Federation) -> tuple[float, list[float]]:
    """The server's and the clients'."""
    return run.server.slot.c.item(), run.state.slots["ck"].flatten().tolist()


@pytest.mark.parity
def test_two_rounds_follow_the_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    ref = Reference("fedavg_family_quadratic.json")
    place = [ref.given(name) for name in ("h", "c", "w0", "eta", "K")]
    for t in map(int, ref.keys("scaffold")):
        run = quadratics(method("scaffold"), *place, rounds=t + 1)
        turns = trained(run, monkeypatch)
        ref.equals(f"scaffold.{t}.y", torch.cat([row for _, row in turns[-2:]]))
        ref.equals(f"scaffold.{t}.x", run.server.row[0])
        ref.equals(f"scaffold.{t}.c", run.server.slot.c[0])
        ref.equals(f"scaffold.{t}.ci", run.state.slots["ck"].flatten())
    first, fedavg = (
        finish(quadratics(method(name), *place, rounds=1)).server.row for name in ("scaffold", "fedavg")
    )
    ref.equals("scaffold_round1_equals_fedavg", first.equal(fedavg))


def test_the_equations_by_hand() -> None:
    g = torch.tensor([1.0, 1.0])
    assert corrected(g, c=torch.tensor([0.5, 0.0]), c_k=torch.tensor([0.0, 2.0])) is g
    assert g.tolist() == [1.5, -1.0]
    change = control_change(torch.tensor([0.5, -1.0]), 0.25, torch.tensor([0.5, 1.0]))
    assert change.tolist() == [1.5, -5.0]
    w, average = torch.tensor([1.0, 0.1]), torch.tensor([3.0, 0.7])
    assert next_model(w, average, 0.5).tolist() == pytest.approx([2.0, 0.4])
    assert next_model(w, average, 1.0).equal(average)
    c = torch.tensor([1.0, 0.0])  # two of four clients took part
    assert next_control(c, torch.tensor([[2.0, 0.0], [2.0, 4.0]]), torch.tensor([0.25, 0.25])) is c
    assert c.tolist() == [2.0, 1.0]


def test_two_rounds_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """From 1.3525 with c = -1.175: client 0 goes w -> .9 w + .1 * 2.078333, client 1 w -> .8 w + .6 - .1 * 2.078333."""
    run = quadratics(method("scaffold"), *PLACE, rounds=1)
    finish(run)
    assert run.server.row.item() == pytest.approx(1.3525)
    assert controls(run) == (pytest.approx(-1.175), pytest.approx(FIRST))
    run = quadratics(method("scaffold"), *PLACE, rounds=2)
    *_, (_, first), (_, second) = trained(run, monkeypatch)
    assert [first.item(), second.item()] == pytest.approx([1.5492008333, 1.6493666667])
    assert run.server.row.item() == pytest.approx(1.59928375)
    changes = [(1.3525 - 1.5492008333) / 0.3 + 1.175, (1.3525 - 1.6493666667) / 0.3 + 1.175]
    own = [one + change for one, change in zip(FIRST, changes, strict=True)]
    assert controls(run) == (pytest.approx(-1.175 + sum(changes) / 2), pytest.approx(own))


def test_it_ends_at_the_common_optimum_where_controls_are_the_local_gradients() -> None:
    """(w - 0) + 2 (w - 3) = 0 at 2, with gradients 2 and -2; FedAvg stays where .729 w + 3 - .512 (3 - w) = 2 w, at 1.928854."""
    run, fedavg = (finish(quadratics(method(name), *PLACE, rounds=30)) for name in ("scaffold", "fedavg"))
    assert run.server.row.item() == pytest.approx(2, abs=1e-5)
    assert controls(run) == (pytest.approx(0, abs=1e-5), pytest.approx([2, -2], abs=1e-5))
    assert fedavg.server.row.item() == pytest.approx(1.464 / 0.759, abs=1e-6)


def test_the_released_control_leaves_out_the_rate() -> None:
    """(1 - .729) / 3 and (1 - 1.976) / 3: a tenth of the default's, whose steps have rate .1."""
    run = finish(quadratics(method("scaffold", control="steps"), *PLACE, rounds=1))
    assert run.server.row.item() == pytest.approx(1.3525)  # the first round knows no control
    assert controls(run) == (pytest.approx(-0.1175), pytest.approx([one / 10 for one in FIRST]))


def test_the_server_s_step() -> None:
    """1 + .5 (1.3525 - 1); controls do not know of it."""
    run = finish(quadratics(method("scaffold", eta_g=0.5), *PLACE, rounds=1))
    assert run.server.row.item() == pytest.approx(1.17625)
    assert controls(run) == (pytest.approx(-1.175), pytest.approx(FIRST))


def test_the_average_is_uniform_whatever_clients_hold() -> None:
    run = finish(quadratics(method("scaffold"), *PLACE, rounds=1, sizes=[3, 1]))
    assert run.server.row.item() == pytest.approx(1.3525)
    assert controls(run)[0] == pytest.approx(-1.175)


@pytest.mark.parametrize(
    ("hp", "expected"),
    [
        ({"control": "steps"}, [1.681, 2.343, 1.715]),
        ({"control": "steps", "weights": "size"}, [1.0835, 1.109, 0.952]),
    ],
)
def test_the_released_rule_weighs_models_and_controls_by_size(
    hp: dict[str, Any], expected: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients of 3 and 1 samples, momentum .9 that persists, after rounds 1, 2 and 4; the controls' mean by the same weights."""
    local = {"momentum": 0.9, "optimizer_state": "persist"}
    for rounds, row in zip((1, 2, 4), expected, strict=True):
        run = finish(quadratics(method("scaffold", **hp), *PLACE, rounds=rounds, sizes=[3, 1], local=local))
        assert run.server.row.item() == pytest.approx(row, abs=5e-4)
        c, (first, second) = controls(run)
        by_size = "weights" in hp
        assert c == pytest.approx(0.75 * first + 0.25 * second if by_size else (first + second) / 2)


def test_by_size_under_partial_participation_the_control_stays_the_weighted_mean() -> None:
    run = quadratics(
        method("scaffold", weights="size"), *PLACE, rounds=5, sizes=[3, 1], federation={"participation": 0.5}
    )
    c, (first, second) = controls(finish(run))
    assert min(run.state.visits) > 0
    assert c == pytest.approx(0.75 * first + 0.25 * second, rel=1e-12)


def test_the_preset_released_weighs_by_size_and_asking_for_it_elsewhere_is_refused(project: Path) -> None:
    file = project / "experiments" / "asked.yaml"

    def declared(scaffold: str, spec: str = "", axes: str = "") -> RunSpec:
        text = "title: any\nprotocol: fedrd\nspec: {data: {dataset: pacs, target: photo}"
        file.write_text(f"{text}{spec}}}\nmethods: {{scaffold: {scaffold}}}\naxes: {{seed: [0]{axes}}}\n")
        (cell,) = expand(Workspace(project), load(Workspace(project), "asked"))
        return cell.spec

    assert declared("{preset: released}").method.params == {"control": "steps", "weights": "size"}
    assert declared("").method.params == {}  # the protocol's own "size" is for methods without a rule
    for asked in (
        ("", ", federation: {weights: size}"),
        ("{federation: {weights: size}}",),
        ("", "", ", federation.weights: [size]"),
    ):
        with pytest.raises(
            FedshiftError, match=r"scaffold: federation.weights: 'size' .* 'uniform'\n.*method.params.weights"
        ):
            declared(*asked)
    assert declared("{preset: released}", ", federation: {weights: size}").federation.weights == "size"


def test_controls_under_partial_participation(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of two clients a round: c moves by half of what the client's control moves, and stays the mean of all controls."""
    some = {"participation": 0.5}
    run = quadratics(method("scaffold"), *PLACE, rounds=1, federation=some)
    (k,) = participants(2, 0.5, 0, 0)
    (_, row), *_ = trained(run, monkeypatch)
    assert run.server.row.equal(row)
    expected = [0.0, 0.0]
    expected[k] = FIRST[k]
    assert controls(run) == (pytest.approx(FIRST[k] / 2), pytest.approx(expected))
    run = finish(quadratics(method("scaffold"), *PLACE, rounds=5, federation=some))
    c, own = controls(run)
    assert min(run.state.visits) > 0
    assert c == pytest.approx(sum(own) / 2, rel=1e-12)


def test_the_raw_gradient_is_clipped_before_the_correction() -> None:
    """Gradient 3 clipped to .5, less the control -2: 1 - .1 * 2.5."""
    run = quadratics(method("scaffold"), [3.0], [0.0], 1.0, 0.1, 1, 1, local={"clip": 0.5})
    run.state.slots["ck"].fill_(-2.0)
    assert finish(run).server.row.item() == pytest.approx(0.75, abs=1e-6)


def test_a_control_divides_by_the_sum_of_the_rates() -> None:
    """Rates .1 and .05: 1 -> .9 -> .855, and .145 / .15."""
    halved = {"schedule": {"kind": "exponential", "gamma": 0.5, "unit": "epoch"}}
    run = finish(quadratics(method("scaffold"), [1.0], [0.0], 1.0, 0.1, 2, 1, local=halved))
    assert run.server.row.item() == pytest.approx(0.855)
    assert controls(run) == (pytest.approx(0.145 / 0.15), [pytest.approx(0.145 / 0.15)])


def test_with_momentum_a_control_is_the_average_effective_step() -> None:
    """Gradients 1 and .9 in a momentum of .5 are steps of 1 and 1.4 times .1: 1 -> .9 -> .76, and .24 / .2."""
    run = quadratics(method("scaffold"), [1.0], [0.0], 1.0, 0.1, 2, 1, local={"momentum": 0.5})
    assert controls(finish(run)) == (pytest.approx(1.2), [pytest.approx(1.2)])


def test_who_does_not_move_keeps_its_control() -> None:
    run = quadratics(method("scaffold"), *PLACE[:3], lr=0.0, steps=3, rounds=2)
    run.state.slots["ck"].fill_(1.0)
    run.server.slot.c.fill_(1.0)
    assert controls(finish(run)) == (1.0, [1.0, 1.0])
    assert run.server.row.item() == 1.0


def test_statistics_are_averaged_and_take_no_server_step(monkeypatch: pytest.MonkeyPatch) -> None:
    run = small(spec(federation={"rounds": 1}), method("scaffold", eta_g=0.5), clients=2)
    before, W, B = run.server.row.clone(), run.layout.W, run.layout.B
    rows = torch.stack([row for _, row in trained(run, monkeypatch)])
    average = rows.mean(0)
    after = run.server.row
    assert_rounded(after[B], average[B], rows[:, B] / 2)
    assert_rounded(after[W], ((before + average) / 2)[W], torch.cat([before[None], rows])[:, W] / 2)
    assert not after[B].equal(before[B])


def test_the_first_round_is_uniform_fedavg_bit_for_bit() -> None:
    run = spec(local={"clip": 1.0, "momentum": 0.9}, federation={"weights": "uniform", "rounds": 1})
    first, fedavg = (
        finish(small(run, method(name), clients=2)).server.row for name in ("scaffold", "fedavg")
    )
    assert first.equal(fedavg)


def test_equal_clients_need_no_correction() -> None:
    """Their controls are the server's, so that all rounds are FedAvg's bit for bit."""
    place = [2.0, 2.0], [3.0, 3.0], 1.0, 0.1, 3, 3
    run, fedavg = (finish(quadratics(method(name), *place)) for name in ("scaffold", "fedavg"))
    assert run.server.row.equal(fedavg.server.row)
    c, own = controls(run)
    assert c != 0
    assert own == [c, c]
