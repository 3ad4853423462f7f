"""Where the server needs the clients' average alone, it is made as they come: the same numbers, two rows held."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import Tensor

from fedshift.common.registry import get, names
from fedshift.federation.loop import Federation
from fedshift.federation.method import Method
from fedshift.federation.server import Server, mean
from fedshift.spec.resolve import resolve
from fedshift.testing import toys

AVERAGING = [name for name in names("methods") if get("methods", name).aggregate is Method.aggregate]


def holding(name: str) -> Method:
    """The same method with a server rule of its own, which is the inherited one."""
    kind: type[Method] = get("methods", name)

    class Holding(kind):  # type: ignore[misc, valid-type]
        def aggregate(self, S: Server, rows: Tensor, p: Tensor, up: Mapping[str, Tensor]) -> None:
            super().aggregate(S, rows, p, up)

    return Holding()


def played(method: Method) -> tuple[Federation, list[int]]:
    """A federation after its last round, and how many rows it held when each client trained."""
    blocks = {"federation": {"rounds": 3, "participation": 0.67}, "method": {"name": method.name}}
    federation = toys.small(resolve(toys.spec(**blocks)), method)
    train, held = federation._train_client, []

    def spy(row: Tensor, *rest: Any) -> Any:
        held.append(row.untyped_storage().nbytes() // row.nbytes)
        return train(row, *rest)

    federation._train_client = spy  # type: ignore[method-assign]
    return toys.finish(federation), held


@pytest.mark.parametrize("name", AVERAGING)
def test_the_state_is_that_of_a_mean_over_all_rows(name: str) -> None:
    (streamed, few), (whole, many) = played(toys.method(name)), played(holding(name))
    assert streamed.method.averages and not whole.method.averages
    if len(streamed.clients) > 1:
        assert set(few) == {1} and set(many) == {2}
    torch.testing.assert_close(
        streamed.state_dict()["state"], whole.state_dict()["state"], rtol=0, atol=0, equal_nan=True
    )


def test_most_methods_are_held_to_it() -> None:
    assert {"fedavg", "fedbn", "fedprox", "moon", "ditto", "stablefdg"} <= set(AVERAGING)
    assert not {"fdse", "fedrd", "hfedf", "scaffold"} & set(AVERAGING)


def test_mean() -> None:
    rows = torch.tensor([[1.0, 2.0], [3.0, 6.0]])
    assert mean(rows, torch.tensor([0.25, 0.75])).tolist() == [2.5, 5.0]
    assert rows.tolist() == [[1.0, 2.0], [3.0, 6.0]]  # they are the clients'
    assert mean(rows[:1], torch.tensor([1.0])).equal(rows[0])
