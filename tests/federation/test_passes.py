"""A run counts the passes of its training, whatever its method does with further networks."""

from __future__ import annotations

from typing import Any

import pytest

from fedshift.federation.loop import Federation
from fedshift.testing.toys import finish, method, small, spec

TRAIN, VAL = 36, 12  # images of the three toy clients


def counted(federation: Federation) -> list[tuple[float, float]]:
    """Forward and backward passes by round."""
    rows = [row for row in federation.records.rows if row["stage"] == "cost"]
    passes = (
        {row["metric"]: row["value"] for row in rows if row["round"] == t + 1}
        for t in range(federation.round)
    )
    return [(one["forward_passes"], one["backward_passes"]) for one in passes]


@pytest.mark.parametrize(
    ("name", "hp", "forward", "backward"),
    [
        ("fedavg", {}, TRAIN, TRAIN),
        ("central", {}, TRAIN, TRAIN),
        ("ditto", {}, 2 * TRAIN, 2 * TRAIN),  # both models on every batch
        ("moon", {}, 3 * TRAIN, TRAIN),  # and the global and the last model, without gradients
        ("feddg_ga", {}, TRAIN + 2 * VAL, TRAIN),  # the received model and the trained one
        ("fediir", {}, 2 * TRAIN, TRAIN),  # the mean gradient of the head
        ("partialfed", {}, 2 * TRAIN, 2 * TRAIN),  # the gates' epoch
        ("stablefdg", {"size": 0, "p": 0.0, "attention": "none"}, TRAIN, TRAIN),  # by its parameters
    ],
)
def test_passes_of_a_round(name: str, hp: dict[str, Any], forward: float, backward: float) -> None:
    run = spec(local={"batch": 4}, federation={"rounds": 3})
    assert counted(finish(small(run, method(name, **hp))))[-1] == pytest.approx((forward, backward))


def test_added_samples_are_passes_too() -> None:
    run = spec(local={"batch": 4}, federation={"rounds": 2})
    assert counted(finish(small(run, method("stablefdg", size=4, p=1.0))))[-1][0] > 1.3 * TRAIN


def test_evaluation_is_not_counted() -> None:
    every, last = (spec(federation={"rounds": 2}, evaluation={"every": n, "keep": "none"}) for n in (1, 2))
    assert counted(finish(small(every, method("ditto")))) == counted(finish(small(last, method("ditto"))))
