"""What an entry of a table's metrics may be, and what is refused."""

from __future__ import annotations

import pytest

from fedshift.common.errors import FedshiftError
from fedshift.experiments.column import Column, column, recorded


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ood", Column("quantity", "ood")),
        ("ece.pooled", Column("quantity", "ece.pooled")),
        ("cost.up", Column("cost", "up")),
        ("setting.method.params.lr", Column("setting", "method.params.lr")),
        ("layer.block.3", Column("layer", "block.3")),
        ("rounds_to.loss.id=0.5", Column("rounds_to", "loss.id=0.5")),
        ("gain.ece.ood", Column("quantity", "ece.ood", "gain")),
        ("ratio.cost.seconds", Column("cost", "seconds", "ratio")),
        ("ratio.bytes_to.ood=60", Column("bytes_to", "ood=60", "ratio")),
    ],
)
def test_columns(text: str, expected: Column) -> None:
    assert column(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cost.secnds", "Did you mean 'seconds'"),
        ("layer.modl.1", "Did you mean 'model'"),
        ("layer.model.0", "names no layer"),
        ("rounds_to.ood", "names no value to reach"),
        ("rounds_to.ood=nan", "names no value to reach"),
        ("gain.gain.ood", "is relative to nothing"),
        ("odo", "Did you mean 'ood'"),
        ("cost", "unknown aggregation"),
    ],
)
def test_what_is_refused(text: str, message: str) -> None:
    with pytest.raises(FedshiftError, match=message):
        column(text, "here")


def test_what_a_declaration_tells() -> None:
    declared = {"setting.local.lr", "layer.model.1", "cost.parameters", "cost.state_dict", "cost.macs"}
    measured = {"ood", "cost.seconds", "cost.up", "cost.memory", "rounds_to.ood=60", "gain.ood"}
    assert {text for text in declared | measured if column(text).declared} == declared


def test_the_quantities_that_columns_are_of() -> None:
    assert recorded(["gain.ood", "cost.up", "rounds_to.id=60", "ood", "setting.local.lr"]) == ["ood", "id"]
