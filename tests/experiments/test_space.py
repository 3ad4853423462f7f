"""Search spaces: what they hold, which points are tried, and that every row gets as many."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from pydantic import ValidationError

from fedshift.common.errors import FedshiftError
from fedshift.experiments.space import Space, points

RATE = Space(low=0.001, high=1.0)
MU = Space(values=[0.01, 0.1, 1.0])


@pytest.mark.parametrize(
    "wrong",
    [{}, {"values": []}, {"low": 1.0}, {"low": 1.0, "high": 0.5}, {"low": 0.0, "high": 1.0}, {"values": [1], "low": 1.0}, {"low": 1.0, "high": 2.0, "scale": "log2"}],
)  # fmt: skip
def test_what_is_no_space_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Space.model_validate(wrong)


def test_a_grid_is_all_points_in_the_order_of_its_lists() -> None:
    found = points({"a": MU, "b": Space(values=[1, 2])}, None, 0, "x")
    assert found == [{"a": a, "b": b} for a, b in itertools.product(MU.values, [1, 2])]
    assert points({}, None, 0, "x") == [{}]


def test_a_grid_has_no_range() -> None:
    with pytest.raises(FedshiftError, match="a grid has no range, and 'rate'"):
        points({"rate": RATE}, None, 0, "x")


@pytest.mark.parametrize("budget", [1, 4, 9])
def test_as_many_different_points_as_the_budget(budget: int) -> None:
    for spaces in ({"a": MU, "b": MU}, {"rate": RATE}, {"rate": RATE, "a": MU}):
        found = points(spaces, budget, 3, "x")
        assert len(found) == budget == len({str(point) for point in found})
        assert all(point[key] in space for point in found for key, space in spaces.items())


def test_a_space_with_fewer_points_than_the_budget_is_refused() -> None:
    """Else its row would be tuned less than the others, and nobody would see it."""
    with pytest.raises(FedshiftError, match=r"row: has 9 points to search \(a, b\), and the budget is 10"):
        points({"a": MU, "b": MU}, 10, 0, "row")
    with pytest.raises(FedshiftError, match="has 1 points"):
        points({}, 2, 0, "row")
    with pytest.raises(FedshiftError, match="and the budget is 1000"):
        points({"rate": Space(low=0.1, high=0.2)}, 1000, 0, "row")  # two digits: eleven values


def test_the_draw_decides_the_points_and_a_larger_budget_keeps_them() -> None:
    """The runs of a search that is made larger are there already."""
    spaces = {"rate": RATE, "a": MU}
    assert points(spaces, 5, 1, "x") == points(spaces, 12, 1, "x")[:5]
    assert points(spaces, 5, 1, "x") != points(spaces, 5, 2, "x")


def test_points_cover_a_range_evenly() -> None:
    """Each quarter of a range has a quarter of 16 points, give or take one that rounding moves over an edge."""
    for draw in range(5):
        rates = [point["v"] for point in points({"v": Space(low=0.001, high=10.0)}, 16, draw, "x")]
        assert all(3 <= sum(10.0**k <= rate < 10.0 ** (k + 1) for rate in rates) <= 5 for k in range(-3, 1))
        linear = [
            point["v"] for point in points({"v": Space(low=0.0, high=4.0, scale="linear")}, 16, draw, "x")
        ]
        assert all(3 <= sum(k <= value < k + 1 for value in linear) <= 5 for k in range(4))
        assert all(float(f"{value:.2g}") == value for value in (*rates, *linear))
