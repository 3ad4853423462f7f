"""SCAFFOLD: two rounds against the reference, what a control divides by, its released rule."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from fedshift.common.errors import FedshiftError
from fedshift.experiments.expand import expand
from fedshift.experiments.load import load
from fedshift.federation.loop import Federation
from fedshift.spec import RunSpec
from fedshift.storage.workspace import Workspace
from fedshift.testing.toys import finish, method, quadratics, spec, trained
from tests.methods import plain
from tests.reference import Reference

# As FedAvg in the first round: client 0 (h 1, c 0) ends at .729, client 1 (h 2, c 3) at 1.976, in three steps of rate .1 from 1.
PLACE = [1.0, 2.0], [0.0, 3.0], 1.0, 0.1, 3


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
    first, other = (finish(quadratics(method(one), *place, rounds=1)) for one in ("scaffold", "fedavg"))
    ref.equals("scaffold_round1_equals_fedavg", first.server.row.equal(other.server.row))


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


def test_a_control_divides_by_the_sum_of_the_rates() -> None:
    """Rates .1 and .05: 1 -> .9 -> .855, and .145 / .15."""
    halved = {"schedule": {"kind": "exponential", "gamma": 0.5, "unit": "epoch"}}
    run = finish(quadratics(method("scaffold"), [1.0], [0.0], 1.0, 0.1, 2, 1, local=halved))
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


# Three rounds of SCAFFOLD, one of three unequal clients at rest, against Algorithm 1 written out.
LOCAL = {"batch": 5, "lr": 0.05, "epochs": 2, "clip": 1.0}


@pytest.mark.parametrize("weights", ["uniform", "size"])
@pytest.mark.parametrize("control", ["rates", "steps"])
@plain.doubles()
def test_three_rounds(control: str, weights: str) -> None:
    run = spec(local={**LOCAL, "schedule": {"kind": "exponential", "gamma": 0.8}}, federation=plain.PARTIAL)
    f = plain.federation(run, method("scaffold", eta_g=0.7, control=control, weights=weights))
    G = plain.named(f, f.state.row)
    W = plain.trainable(G)
    c = {name: torch.zeros_like(G[name]) for name in W}
    own = [dict(c) for _ in plain.SIZES]
    for t in range(plain.PARTIAL["rounds"]):
        chosen, lr, up, changes = plain.active(f, t), LOCAL["lr"] * 0.8**t, [], []
        for k in chosen:
            P, steps = plain.copied(G), 0
            mine: plain.Tensors = own[k]

            def change(
                name: str, w: Tensor, g: Tensor, c: plain.Tensors = c, mine: plain.Tensors = mine
            ) -> Tensor:
                return g - mine[name] + c[name]

            for _, x, y in plain.batches(f, k, t):
                plain.leaves(P)
                loss = plain.cross_entropy(plain.logits(P, x, True), y)
                plain.descend(P, loss, lr, {}, run.local, after=change)
                steps += 1
            divisor = steps * (lr if control == "rates" else 1)
            change = {name: (G[name] - P[name]) / divisor - c[name] for name in W}
            own[k] = {name: mine[name] + change[name] for name in W}
            up.append(P)
            changes.append(change)
        mean = plain.average(up, (plain.by_size if weights == "size" else plain.equal)(chosen))
        G = mean | {name: G[name] + 0.7 * (mean[name] - G[name]) for name in W}
        parts = (plain.by_size if weights == "size" else plain.equal)(range(len(plain.SIZES)))
        share = [parts[k] for k in chosen]
        c = {name: c[name] + plain.average(changes, share)[name] for name in W}
    assert plain.differs(f, G) < 1e-8
