"""What travels between server and clients, in bytes."""

from __future__ import annotations

import pytest

from fedshift.testing.toys import finish, method, small, spec


@pytest.mark.parametrize(
    ("name", "extra_down", "extra_up", "bn_travels"),
    [
        ("fedavg", 0, 0, True),
        ("fedprox", 0, 0, True),
        ("ditto", 0, 0, True),
        ("fedbn", 0, 0, False),
        ("scaffold", 1, 1, True),
    ],
)
def test_bytes(name: str, extra_down: int, extra_up: int, bn_travels: bool) -> None:
    """Per round and client 4 bytes for each travelling float; SCAFFOLD adds one control each way."""
    federation = finish(small(spec(), method(name)))
    layout = federation.layout
    floats = layout.size - (0 if bn_travels else layout.kind("bn_affine", "bn_statistic").size)
    cost = [row for row in federation.records.rows if row["stage"] == "cost" and row["round"] == 1]
    counted = {row["metric"]: row["value"] for row in cost}
    assert counted["bytes_down"] == 3 * 4 * (floats + extra_down * layout.P)
    assert counted["bytes_up"] == 3 * 4 * (floats + extra_up * layout.P)
    assert counted["images"] == 36


def test_nothing_travels_in_local() -> None:
    federation = finish(small(spec(), method("local")))
    assert {row["value"] for row in federation.records.rows if row["metric"].startswith("bytes")} == {0.0}
