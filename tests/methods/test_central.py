"""Central training: one client with everybody's data, one optimiser for the whole run, tested on every client's held-out data."""

from __future__ import annotations

import pytest
import torch

from fedshift.common.registry import get
from fedshift.federation.loop import Federation
from fedshift.federation.samples import ClientData
from fedshift.testing.toys import SIZES, finish, images, method, quadratics, small, spec

PLACE = [1.0, 2.0], [0.0, 3.0], 1.0, 0.1  # h, c, start, rate


def run(steps: int, rounds: int, sizes: list[int], **blocks: dict[str, object]) -> float:
    """The model after `steps` steps a round on one batch of all samples."""
    local = {"batch": sum(sizes), **blocks.pop("local", {})}
    return finish(
        quadratics(method("central"), *PLACE, steps, rounds, sizes, local=local, **blocks)
    ).server.row.item()


@pytest.mark.parametrize(
    ("sizes", "rounds", "expected"),
    [
        (
            [1, 1],
            1,
            2 - 0.85**3,
        ),  # gradient (w + 2 (w - 3)) / 2 = 1.5 (w - 2): the distance 1 shrinks by .85 a step
        ([1, 1], 2, 2 - 0.85**6),
        ([3, 1], 1, 1.2 - 0.2 * 0.875**3),  # (3 w + 2 (w - 3)) / 4 = 1.25 (w - 1.2)
    ],
)
def test_rounds_by_hand(sizes: list[int], rounds: int, expected: float) -> None:
    assert run(3, rounds, sizes) == pytest.approx(expected, rel=1e-12)


def test_one_optimiser_for_the_whole_run() -> None:
    """One step a round, momentum .9: 1 -> 1.15, where the gradient is -1.275 -> 1.15 + .1 (.9 * 1.5 + 1.275)."""
    assert run(1, 2, [1, 1], local={"momentum": 0.9}) == pytest.approx(1.4125)


def test_all_data_are_there_in_every_round() -> None:
    assert run(3, 2, [1, 1], federation={"participation": 0.5}) == run(3, 2, [1, 1])


def test_it_is_fedavg_of_one_client_with_all_data_bit_for_bit() -> None:
    """Statistics too; FedAvg's optimiser must be told to last."""
    samples, held, target = images()
    everybody = ClientData(
        *(torch.cat([one.split(name) for one in held]) for name in ("train", "val", "test"))
    )
    lasting = spec(local={"momentum": 0.9, "optimizer_state": "persist"})
    fedavg = Federation(
        lasting, method("fedavg"), lambda: get("models", "digits_cnn")(2, 32), samples, [everybody], target
    )
    central = finish(small(spec(local={"momentum": 0.9}), method("central")))
    assert central.server.row.equal(finish(fedavg).server.row)
    tested = [row for row in central.records.rows if row["split"] == "test" and row["metric"] == "loss"]
    assert {(row["client"], row["round"], row["model"], row["n"]) for row in tested} == {
        (k, t, "global", n) for k, (_, _, n) in enumerate(SIZES) for t in range(3)
    }
    assert central.state.visits == [2]
