"""FedDG-GA: the rule against the reference, when gaps are measured and when they count."""

from typing import Any

import pytest
import torch

from fedshift.federation.loop import Federation
from fedshift.methods.feddg_ga import adjusted, step_size
from fedshift.testing.toys import finish, method, spec
from tests.methods import plain
from tests.reference import Reference


@pytest.mark.parity
@pytest.mark.parametrize("case", ["case_loss", "case_acc", "case_clip"])
def test_weights_follow_the_reference(case: str) -> None:
    ref = Reference("feddg_ga.json")
    before, after = ref.given(f"{case}.before"), ref.given(f"{case}.after")
    gap = (1 - after) - (1 - before) if case == "case_acc" else after - before
    weights = adjusted(ref.given(f"{case}.w"), gap, ref.given(f"{case}.step"))
    for domain, weight in zip("abc", weights, strict=True):
        ref.equals(f"{case}.out.{domain}", weight)


def test_weights_by_hand() -> None:
    """A third of the step for the widest gap, half of it the other way: (.4, 1/3, .3) / 1.0333."""
    third = torch.full((3,), 1 / 3)
    weights = adjusted(third, torch.tensor([0.2, 0.0, -0.1]), 0.2)
    assert weights.tolist() == pytest.approx([0.387097, 0.322581, 0.290323], abs=1e-6)
    assert adjusted(third, torch.full((3,), 0.7), 0.2).tolist() == pytest.approx([1 / 3] * 3)
    assert adjusted(third, torch.zeros(3), 0.2).equal(third)
    assert adjusted(torch.tensor([1.0]), torch.tensor([-3.0]), 2.0).tolist() == [1.0]


def test_weights_that_all_fall_to_zero_become_equal_parts() -> None:
    weights = adjusted(torch.tensor([0.01, 0.0]), torch.tensor([-1.0, -1.0]), 0.2)
    assert weights.tolist() == [0.5, 0.5]


def test_centred_gaps() -> None:
    """Gaps (.3, .1, -.1) less .1 are (1, 0, -1) times the widest."""
    weights = adjusted(torch.full((3,), 1 / 3), torch.tensor([0.3, 0.1, -0.1]), 0.3, center=True)
    assert weights.tolist() == pytest.approx([1 / 3 + 0.1, 1 / 3, 1 / 3 - 0.1])


def test_equal_gaps_centred_change_nothing() -> None:
    """Not even where their mean is rounded: what it is off by must not become the widest gap."""
    rng = torch.Generator().manual_seed(0)
    for clients in range(1, 12):
        p = torch.rand(clients, generator=rng)
        p /= p.sum()
        for gap in torch.rand(50, generator=rng):
            weights = adjusted(p, gap.expand(clients), 0.2, center=True)
            assert weights.tolist() == pytest.approx(p.tolist(), abs=1e-6)


def test_the_step_starts_above_its_name_and_falls() -> None:
    steps = [step_size(0.2, t, 4) for t in range(4)]
    assert steps == pytest.approx([0.25, 0.2, 0.15, 0.1])


# Four rounds of FedDG-GA, one of three unequal clients at rest, against the same rounds written out.
LOCAL = {"batch": 5, "lr": 0.05, "momentum": 0.9, "epochs": 2}
ROUNDS = 4


def measured(f: Federation, P: plain.Tensors, k: int, fair: str) -> float:
    x, y = f.worker.samples.take(f.clients[k].val)
    out = plain.logits(P, plain.pixels(x), False)
    wrong = (out.argmax(1) != y).float().mean()  # in fp32, as the method has it
    return float(plain.cross_entropy(out, y) if fair == "loss" else wrong)


@pytest.mark.parametrize(
    "hp", [{}, {"fair": "acc", "step": 0.3}, {"ga_center": True}], ids=["loss", "acc", "centred"]
)
@plain.doubles()
def test_four_rounds(hp: dict[str, Any]) -> None:
    """Who takes part shares what those clients' weights were together; a gap is against the client's last own model."""
    run = spec(local=LOCAL, federation={"rounds": ROUNDS, "participation": 0.67})
    f = plain.federation(run, method("feddg_ga", **hp), classes=3)  # of two, accuracies stay equal
    G, fair, first = plain.named(f, f.state.row), hp.get("fair", "loss"), hp.get("step", 0.2)
    p, before = [1 / 3] * 3, dict[int, float]()
    for t in range(ROUNDS):
        chosen = plain.active(f, t)
        gap = [measured(f, G, k, fair) - before[k] if k in before else 0.0 for k in chosen]
        if hp.get("ga_center"):
            gap = [one - sum(gap) / len(gap) for one in gap]
        up = [plain.trained(f, G, k, t) for k in chosen]
        before |= {k: measured(f, P, k, fair) for k, P in zip(chosen, up, strict=True)}
        widest, share = max(map(abs, gap)), sum(p[k] for k in chosen)
        step = first - (t - 2) * first / ROUNDS  # of the gaps of the round before
        moved = [
            min(1, max(0, p[k] / share + step / len(chosen) * (one / widest if widest else 0.0)))
            for k, one in zip(chosen, gap, strict=True)
        ]
        weights = [one / sum(moved) for one in moved]
        for k, one in zip(chosen, weights, strict=True):
            p[k] = one * share
        G = plain.average(up, weights)
    finish(f)
    assert len(p) == len(plain.SIZES) and max(p) > 0.34  # the gaps are not all 0
    assert f.state.slots["p"].tolist() == pytest.approx(p, abs=1e-9)
    assert plain.far(plain.named(f, f.state.row), G) < 1e-9
