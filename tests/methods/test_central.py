"""Central training: tested on every client's held-out data."""

from fedshift.testing.toys import SIZES, finish, method, small, spec
from tests.methods import plain


def test_it_is_tested_on_every_client_s_held_out_data() -> None:
    central = finish(small(spec(), method("central")))
    tested = [row for row in central.records.rows if row["split"] == "test" and row["metric"] == "loss"]
    assert {(row["client"], row["round"], row["model"], row["n"]) for row in tested} == {
        (k, t, "global", n) for k, (_, _, n) in enumerate(SIZES) for t in range(3)
    }
    assert central.state.visits == [2]


# Three rounds of Central against the same training written out: the union of unequal clients, one optimiser.
LOCAL = {"batch": 5, "lr": 0.05, "momentum": 0.9, "epochs": 1, "weight_decay": 1e-2}


@plain.doubles()
def test_three_rounds() -> None:
    run = spec(local=LOCAL, federation={"rounds": 3, "participation": 0.67})
    f = plain.federation(run, method("central"))
    P, momentum, seen = plain.named(f, f.state.row), plain.Tensors(), 0
    for t in range(3):
        for _, x, y in plain.batches(f, 0, t):
            plain.leaves(P)
            plain.descend(P, plain.cross_entropy(plain.logits(P, x, True), y), 0.05, momentum, run.local)
            seen += len(y)
    assert 3 * (sum(plain.SIZES) - 1) == seen  # a single image is left out: 36 are 7 batches of 5 and one
    assert plain.far(plain.named(finish(f), f.state.row), P) < 1e-9
