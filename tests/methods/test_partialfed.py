"""PartialFed (a reconstruction): its gate against the reference, its fixed rules. Its rounds: test_partialfed_replay.py."""

from __future__ import annotations

import pytest

from fedshift.methods.partialfed import gumbel_gate
from fedshift.testing.toys import finish, method, small, spec
from tests.reference import Reference

RUN = spec(federation={"rounds": 3}, local={"epochs": 2})


@pytest.mark.parity
def test_gate() -> None:
    ref = Reference("partialfed_gumbel.json")
    logits, uniforms = ref.given("logits"), ref.given("uniform")
    ref.equals("gumbel", -(-uniforms.log()).log())
    soft = gumbel_gate(logits, uniforms, ref.given("tau"))
    ref.equals("soft", soft)
    ref.equals("hard", (soft == soft.max()).double())


@pytest.mark.parametrize(("rule", "kept"), [("fix_bn_head", 4 * (16 + 32 + 64 + 64) + 130), ("fix_top", 130)])
def test_fixed_choices(rule: str, kept: int) -> None:
    federation = finish(small(spec(federation={"rounds": 1}), method("partialfed", rule=rule)))
    assert federation.state.local.size == kept
    assert federation.evaluator.reported == ("personal", "post_train")
