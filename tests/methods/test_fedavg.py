"""FedAvg: the average and its weights, on quadratics by hand and against the reference."""

from __future__ import annotations

import pytest
import torch

from fedshift.federation.batches import participants
from fedshift.federation.loop import Federation
from fedshift.federation.samples import ClientData
from fedshift.federation.server import mean
from fedshift.testing.toys import Point, finish, method, quadratic, quadratics, small, spec, trained
from tests.reference import Reference
from tests.tolerance import assert_rounded

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


@pytest.mark.parametrize(
    ("sizes", "weights", "rounds", "expected"),
    [
        ([1, 1], "size", 1, 1.3525),  # (.729 + 1.976) / 2
        ([1, 1], "size", 2, 1.57122625),  # (.729 * 1.3525 + 3 - .512 * 1.6475) / 2
        ([3, 1], "size", 1, 1.04075),  # (3 * .729 + 1.976) / 4
        ([3, 1], "size", 2, 1.0682460625),  # (3 * .729 * 1.04075 + 3 - .512 * 1.95925) / 4
        ([3, 1], "uniform", 2, 1.57122625),
    ],
)
def test_rounds_by_hand(sizes: list[int], weights: str, rounds: int, expected: float) -> None:
    run = quadratics(method("fedavg"), *PLACE, rounds=rounds, sizes=sizes, federation={"weights": weights})
    assert finish(run).server.row.item() == pytest.approx(expected, rel=1e-12)


def test_weights_count_training_samples_only() -> None:
    """Both hold 4, of which 1 and 3 to train on: (.729 + 3 * 1.976) / 4."""
    made = quadratics(method("fedavg"), *PLACE, rounds=1, sizes=[4, 4])
    nobody = torch.empty(0, dtype=torch.int64)
    clients = [
        ClientData(one.train[:n], one.train[n:], nobody)
        for one, n in zip(made.evaluated_clients, (1, 3), strict=True)
    ]
    run = Federation(
        made.spec, made.method, lambda: Point(1.0), made.worker.samples, clients, nobody, quadratic
    )
    assert finish(run).server.row.item() == pytest.approx(1.66425)


def test_weights_sum_to_1_over_those_who_take_part() -> None:
    """Clients of 1, 3 and 2 samples, two a round."""
    sizes, after = [1, 3, 2], (lambda w: 0.729 * w, lambda w: 3 - 0.512 * (3 - w), lambda w: 0.512 * w)
    run = quadratics(
        method("fedavg"), [1.0, 2.0, 2.0], [0.0, 3.0, 0.0], 1.0, 0.1, 3, 4, sizes,
        federation={"participation": 0.67},
    )  # fmt: skip
    w, away = 1.0, set()
    for t in range(4):
        active = participants(3, 0.67, 0, t)
        away |= {0, 1, 2} - set(active)
        w = sum(sizes[k] * after[k](w) for k in active) / sum(sizes[k] for k in active)
    assert finish(run).server.row.item() == pytest.approx(w, rel=1e-12)
    assert len(away) > 1
    assert sum(run.state.visits) == 8


def test_a_client_alone_in_a_round_gives_its_model_on_bit_for_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    run = quadratics(method("fedavg"), *PLACE, rounds=3, federation={"participation": 0.5})
    turns = trained(run, monkeypatch)
    assert len(turns) == 3
    assert turns[1][0].equal(turns[0][1])
    assert turns[2][0].equal(turns[1][1])
    assert run.server.row.equal(turns[2][1])


def test_equal_clients_are_like_one_bit_for_bit() -> None:
    two, one = (finish(quadratics(method("fedavg"), [2.0] * n, [3.0] * n, 1.0, 0.1, 3, 2)) for n in (2, 1))
    assert two.server.row.equal(one.server.row)


def test_momentum_begins_anew_in_every_round() -> None:
    """One step a round on w^2 / 2: 1 -> .9 -> .81; kept, momentum .9 would make it .9 - .1 (.9 + .9) = .72."""
    run = quadratics(method("fedavg"), [1.0], [0.0], 1.0, 0.1, 1, 2, local={"momentum": 0.9})
    assert finish(run).server.row.item() == pytest.approx(0.81)


def test_all_entries_are_averaged_statistics_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients of 16, 6 and 14 images, all from the round's model."""
    run = small(spec(federation={"rounds": 1}), method("fedavg"))
    start = run.server.row.clone()
    turns = trained(run, monkeypatch)
    assert all(received.equal(start) for received, _ in turns)
    rows = torch.stack([row for _, row in turns])
    parts = torch.tensor([16.0, 6, 14])[:, None] / 36 * rows
    assert_rounded(run.server.row, parts.sum(0), parts)
    statistics = run.layout.B
    assert not (run.server.row == start)[statistics].all()
    assert run.evaluator.reported == ("global", "post_agg")


def test_the_average_of_plain_tensors() -> None:
    """Any shape, in its own precision, and the rows stay as they are: [[0, 2], [4, 8]] / 4 + 3 [[4, 2], [0, 4]] / 4."""
    rows = torch.tensor([[[0, 2], [4, 8]], [[4, 2], [0, 4]]], dtype=torch.float64)
    before = rows.clone()
    average = mean(rows, torch.tensor([0.25, 0.75], dtype=torch.float64))
    assert average.tolist() == [[3, 2], [1, 5]]
    assert average.dtype == torch.float64
    assert rows.equal(before)
