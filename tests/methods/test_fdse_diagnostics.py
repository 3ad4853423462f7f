"""FDSE records the norms of the two gradients that it descends: the task's and the consistency term's."""

from __future__ import annotations

from typing import Any

import pytest
from torch import Tensor

from fedshift.federation.client import Client
from fedshift.methods.fdse import FDSE
from fedshift.testing.toys import finish, method, small, spec

TWO_ROUNDS = spec(local={"batch": 12}, federation={"rounds": 2})


def played(monkeypatch: pytest.MonkeyPatch, **hp: Any) -> tuple[dict[int, Tensor], list[dict[str, Any]]]:
    """Each client's whole gradient at its first step of the second round, and the run's diagnostics."""
    gradients: dict[int, Tensor] = {}
    recording = FDSE.grad

    def spy(self: FDSE, C: Client, g: Tensor) -> None:
        if C.t == 1 and C.steps == 0:
            gradients[C.k] = g.clone()
        recording(self, C, g)

    with monkeypatch.context() as patch:
        patch.setattr(FDSE, "grad", spy)
        run = finish(small(TWO_ROUNDS, method("fdse", **hp)))
    return gradients, [row for row in run.records.rows if row["stage"] == "diagnostic"]


@pytest.mark.parametrize("form", ["paper", "code_v1", "code_head"])
def test_the_recorded_norms_are_those_of_the_two_gradients(
    form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both runs begin round 2 alike, so the difference of their gradients there is the term's alone."""
    task, nothing = played(monkeypatch, lam=0.0)
    whole, recorded = played(monkeypatch, lam=3.0, consistency=form)
    assert not nothing
    assert {row["round"] for row in recorded} == {2}  # the term starts in the second round
    found = {(row["metric"], row["client"]): row["value"] for row in recorded}
    assert len(found) == 2 * len(task)
    for k in task:
        term = whole[k] - task[k]
        assert term.norm() > 0
        assert found["consistency_gradient", k] == pytest.approx(term.norm().item(), rel=1e-3)
        assert found["task_gradient", k] == pytest.approx(task[k].norm().item(), rel=1e-5)


def test_measuring_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    measured = finish(small(TWO_ROUNDS, method("fdse", lam=3.0)))
    monkeypatch.setattr("fedshift.methods.fdse.gradients.begin", lambda C, term: None)
    unmeasured = finish(small(TWO_ROUNDS, method("fdse", lam=3.0)))
    assert not [row for row in unmeasured.records.rows if row["stage"] == "diagnostic"]
    assert measured.state.row.equal(unmeasured.state.row)
