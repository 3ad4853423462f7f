"""MixStyle against stored draws, its limits, and where it acts. Its rounds: test_mixstyle_replay.py."""

from __future__ import annotations

import pytest
from torch import Tensor

from fedshift.methods import mixstyle as module
from fedshift.methods.mixstyle import mixstyle
from fedshift.testing.toys import finish, method, small, spec
from tests.reference import Reference


@pytest.mark.parity
def test_stored_draws() -> None:
    ref = Reference("mixstyle_dsu.npz")
    share = ref.given("lmda").flatten()
    ref.equals("mixstyle", mixstyle(ref.given("x"), share, ref.given("perm")))


def test_probability_one_mixes_after_every_stage_in_training_only(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, ...]] = []

    def spy(x: Tensor, share: Tensor, partner: Tensor) -> Tensor:
        seen.append(tuple(x.shape[1:]))
        return mixstyle(x, share, partner)

    monkeypatch.setattr(module, "mixstyle", spy)
    federation = small(spec(federation={"rounds": 1}), method("mixstyle", p=1.0), clients=1)
    finish(federation)
    assert seen == [(16, 16, 16), (32, 8, 8), (64, 4, 4)] * 2  # two batches; evaluation is as without
