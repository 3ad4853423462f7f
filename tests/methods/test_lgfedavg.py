"""LG-FedAvg: only the last linear layer is exchanged."""

from fedshift.testing.toys import finish, method, spec
from tests.methods import plain

# Three rounds of LG-FedAvg, one of three unequal clients at rest, against the same rounds written out.
LOCAL = {"batch": 5, "lr": 0.05, "epochs": 2, "weight_decay": 1e-2, "clip": 1.0}


@plain.doubles()
def test_three_rounds() -> None:
    f = plain.federation(spec(local=LOCAL, federation=plain.PARTIAL), method("lgfedavg"))
    G = plain.named(f, f.state.row)
    own = [G for _ in plain.SIZES]
    shared = ("head.weight", "head.bias")
    for t in range(plain.PARTIAL["rounds"]):
        chosen = plain.active(f, t)
        for k in chosen:
            own[k] = plain.trained(f, own[k] | {name: G[name] for name in shared}, k, t)
        G = plain.average([own[k] for k in chosen], plain.by_size(chosen))
    finish(f)
    expected = [mine | {name: G[name] for name in shared} for mine in own]
    for row, model in zip(f.method.unseen(f.server), expected, strict=True):
        assert plain.far(plain.named(f, row), model) < 1e-9
