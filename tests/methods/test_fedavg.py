"""FedAvg: a round against the reference, a client alone, the average of plain tensors."""

from typing import Any

import pytest
import torch

from fedshift.federation.server import mean
from fedshift.testing.toys import finish, method, quadratics, spec, trained
from tests.methods import plain
from tests.reference import Reference

# Three steps of rate .1 from w: client 0 (h 1, c 0) ends at .9^3 w, client 1 (h 2, c 3) at 3 - .8^3 (3 - w); from 1 at .729 and 1.976.
PLACE = [1.0, 2.0], [0.0, 3.0], 1.0, 0.1, 3


@pytest.mark.parity
def test_a_round_follows_the_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    ref = Reference("fedavg_family_quadratic.json")
    place = [ref.given(name) for name in ("h", "c", "w0", "eta", "K")]
    run = quadratics(method("fedavg"), *place, rounds=1)
    ref.equals("local", torch.cat([row for _, row in trained(run, monkeypatch)]))
    ref.equals("fedavg_uniform", run.server.row[0])
    weighted = finish(quadratics(method("fedavg"), *place, rounds=1, sizes=[3, 1]))
    ref.equals("fedavg_weighted_3_1", weighted.server.row[0])


def test_a_client_alone_in_a_round_gives_its_model_on_bit_for_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    run = quadratics(method("fedavg"), *PLACE, rounds=3, federation={"participation": 0.5})
    turns = trained(run, monkeypatch)
    assert len(turns) == 3
    assert turns[1][0].equal(turns[0][1])
    assert turns[2][0].equal(turns[1][1])
    assert run.server.row.equal(turns[2][1])


def test_the_average_of_plain_tensors() -> None:
    """Any shape, in its own precision, and the rows stay as they are: [[0, 2], [4, 8]] / 4 + 3 [[4, 2], [0, 4]] / 4."""
    rows = torch.tensor([[[0, 2], [4, 8]], [[4, 2], [0, 4]]], dtype=torch.float64)
    before = rows.clone()
    average = mean(rows, torch.tensor([0.25, 0.75], dtype=torch.float64))
    assert average.tolist() == [[3, 2], [1, 5]]
    assert average.dtype == torch.float64
    assert rows.equal(before)


# Three rounds of FedAvg, of clients of unequal size and one at rest, against the same rounds written out.
LOCAL = {"batch": 4, "lr": 0.05, "momentum": 0.9, "epochs": 2, "weight_decay": 1e-2, "clip": 1.0}


@pytest.mark.parametrize("weights", ["size", "uniform"])
@pytest.mark.parametrize("rule", ["keep_last", "wrap", "drop_last"])
@plain.doubles()
def test_three_rounds(weights: str, rule: str) -> None:
    run: dict[str, Any] = {**plain.PARTIAL, "weights": weights}
    f = plain.federation(spec(local={**LOCAL, "batch_rule": rule}, federation=run), method("fedavg"))
    by = plain.by_size if weights == "size" else plain.equal
    G = plain.averaged(f, lambda G, k, t: plain.trained(f, G, k, t), by)
    assert plain.differs(f, G) < 1e-9
