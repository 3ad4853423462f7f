"""What a federation holds at a moment, to be compared bit for bit."""

import io
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from torch import Tensor

from fedshift.federation.loop import Federation
from fedshift.federation.records import Records, Table
from fedshift.testing.toys import tensors


def state_of(federation: Federation) -> dict[str, Tensor]:
    """A copy of every tensor of a federation's state."""
    return {name: value.clone() for name, value in tensors(federation).items()}


def reproducible(records: Records) -> list[tuple[object, ...]]:
    """All records but those of the machine, without their times."""
    rows = (row for row in records.rows if row["stage"] != "machine")
    return [tuple(value for key, value in row.items() if key != "time") for row in rows]


def everything(federation: Federation) -> dict[str, object]:
    """All that the rest of a run and its summary depend on between two rounds; tensors as bytes."""
    state = federation.state
    held: dict[str, object] = {"row": state.row, "own": state.own, "slots": state.slots}
    held |= {"optimizers": {key: memory for key, memory in state.optimizers.items() if memory}}
    held |= {"records": reproducible(federation.records), "diagnostics": packed(federation.log.table)}
    held |= {"round": federation.round, "visits": state.visits, "peeked": federation.server.peeked}
    held |= {f"selection.{name}": value for name, value in vars(federation.evaluator.selection).items()}
    return {name: plain(value) for name, value in held.items()}


def plain(value: object) -> object:
    """A value whose `==` compares tensors by shape and bytes."""
    if isinstance(value, Tensor):
        copied = value.clone()  # numpy() pins the storage of a slot that has still to grow
        return tuple(value.shape), copied.contiguous().numpy().tobytes()
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list) else value


def same(left: dict[str, Tensor], right: dict[str, Tensor]) -> bool:
    """Bit for bit; NaN equals NaN."""
    return left.keys() == right.keys() and all(
        torch.equal(left[name].nan_to_num(9e9), right[name].nan_to_num(9e9)) for name in left
    )


def packed(table: Table) -> pa.Table:
    """Statistics or diagnostics as they are written."""
    return pq.read_table(io.BytesIO(table.pack()))


def read(segment: Path) -> list[tuple[object, ...]]:
    """All reproducible records of a segment of the metrics."""
    records = Records()
    records.rows = pq.read_table(segment).to_pylist()
    return reproducible(records)


class Contract:
    """A class of tests, each run for every method named.

    names: the methods
    exempt: test -> method -> why it cannot hold there by the method's nature
    """

    names: ClassVar[tuple[str, ...]] = ()
    exempt: ClassVar[Mapping[str, Mapping[str, str]]] = {}

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Run a test that takes `name` once for each method that is not exempt from it."""
        if "name" in metafunc.fixturenames:
            without = self.exempt.get(metafunc.function.__name__, {})
            metafunc.parametrize("name", [name for name in self.names if name not in without])
