"""Local training: who is evaluated with what."""

import math

from fedshift.testing.toys import finish, method, spec
from tests.methods import plain

# Three rounds of Local, one of three unequal clients at rest, against the same training written out.
LOCAL = {
    "batch": 5, "lr": 0.05, "momentum": 0.9, "epochs": 2, "weight_decay": 1e-2, "optimizer_state": "persist",
    "schedule": {"kind": "cosine"},
}  # fmt: skip


@plain.doubles()
def test_three_rounds() -> None:
    run = spec(local=LOCAL, federation={"rounds": 3, "participation": 0.67})
    f = plain.federation(run, method("local"))
    own = [plain.named(f, f.state.row) for _ in plain.SIZES]
    momenta: list[plain.Tensors] = [{} for _ in plain.SIZES]
    for t in range(3):
        for k in plain.active(f, t):
            for _, x, y in plain.batches(f, k, t):
                plain.leaves(own[k])
                loss = plain.cross_entropy(plain.logits(own[k], x, True), y)
                plain.descend(own[k], loss, 0.05 * (1 + math.cos(math.pi * t / 3)) / 2, momenta[k], run.local)
    finish(f)
    for row, mine in zip(f.method.unseen(f.server), own, strict=True):
        assert plain.far(plain.named(f, row), mine) < 1e-9
