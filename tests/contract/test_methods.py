"""What every method must hold: walks the registry, so that a new file is tested unasked."""

from __future__ import annotations

import io
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from torch import Tensor

from fedshift.federation import checkpoint, local, loop
from fedshift.federation.batches import schedule
from fedshift.federation.client import Client
from fedshift.federation.loop import Federation
from fedshift.federation.method import Method
from fedshift.federation.records import Table
from fedshift.federation.transfer import Transfer
from fedshift.identity import partition_name, prepared_name
from fedshift.registry import names
from fedshift.testing.spies import aliased
from fedshift.testing.toys import finish, method, small, spec, tensors
from fedshift.tracking.points import points

METHODS = names("methods")
RUN = spec(local={"momentum": 0.9, "optimizer_state": "persist", "clip": 5.0}, federation={"rounds": 3})

TWO = RUN.model_copy(update={"federation": RUN.federation.model_copy(update={"rounds": 2})})


class Poisoned(Transfer):
    """Whatever is not declared to travel is NaN on the receiving side before the transfer."""

    def down(self, row: Tensor, client: int, source: Tensor, again: bool = False) -> None:
        row.fill_(torch.nan)
        super().down(row, client, source, again)


def state_of(federation: Federation) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in tensors(federation).items()}


def numbers(federation: Federation) -> list[tuple[object, ...]]:
    """All reproducible records."""
    rows = (row for row in federation.records.rows if row["stage"] != "machine")
    return [tuple(value for key, value in row.items() if key != "time") for row in rows]


def everything(federation: Federation) -> dict[str, object]:
    """All that the rest of a run, and its summary, depend on; every field of the selection and of the open round, tensors as bytes."""
    progress, transfer = federation.progress, federation.transfer
    state = federation.state
    told: dict[str, object] = {"row": state.row, "own": state.own, "slots": state.slots}
    told |= {"optimizers": {key: memory for key, memory in state.optimizers.items() if memory}}
    told |= {"records": numbers(federation), "diagnostics": packed(federation.diagnostics.table)}
    told |= {"recorded": list(federation.diagnostics.state_dict().values())}
    told |= {"round": federation.round, "visits": federation.state.visits}
    told |= {"peeked": federation.server.peeked, "bytes": (transfer.bytes_down, transfer.bytes_up)}
    told |= {f"selection.{name}": value for name, value in vars(federation.evaluator.selection).items()}
    if progress:
        done = {
            "rows": progress.rows[: progress.done],
            "measured": progress.measured[: progress.done],
        }
        told |= {f"open.{name}": value for name, value in {**vars(progress), **done}.items()}
    return {name: plain(value) for name, value in told.items()}


def plain(value: object) -> object:
    if isinstance(value, Tensor):
        copied = value.clone()  # numpy() pins the storage of a slot that has still to grow
        return tuple(value.shape), copied.contiguous().numpy().tobytes()
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    return [plain(one) for one in value] if isinstance(value, list) else value


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    """Bit for bit; NaN equals NaN."""
    return one.keys() == other.keys() and all(
        torch.equal(one[name].nan_to_num(9e9), other[name].nan_to_num(9e9)) for name in one
    )


@pytest.mark.parametrize("name", METHODS)
def test_only_what_is_declared_travels(name: str) -> None:
    assert same(
        state_of(finish(small(RUN, method(name), transfer=Poisoned))),
        state_of(finish(small(RUN, method(name)))),
    )


@pytest.mark.parametrize("name", METHODS)
def test_local_entries_never_reach_the_server(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    federation = small(RUN, method(name))
    received: list[Tensor] = []
    aggregate = type(federation.method).aggregate

    def spy(self: object, server: object, rows: Tensor, *rest: object) -> None:
        received.append(rows.clone())
        aggregate(self, server, rows, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(type(federation.method), "aggregate", spy)
    finish(federation)
    assert len(received) == 3 * (len(federation.clients) if federation.method.sequential else 1)
    for rows in received:
        assert rows[:, federation.state.local.at].isnan().all()
        assert rows[:, federation.state.shared.at].isfinite().all()


@pytest.mark.parametrize("name", METHODS)
def test_every_entry_has_one_class(name: str) -> None:
    state = small(RUN, method(name)).state
    assert (state.shared.mask.int() + state.personal.mask.int() + state.local.mask.int()).eq(1).all()


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_gradients_stay_in_the_flat_vector(
    name: str, precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = spec(local={"precision": precision}, federation={"rounds": 1})
    federation = small(run, method(name))
    steps: list[bool] = []
    descend = local._descend

    def spy(client: Client, *args: object) -> None:
        descend(client, *args)  # type: ignore[arg-type]
        steps.append(all(aliased(network) for network in client.worker._networks.values()))
        steps.append(bool(client.network.g.any()))

    monkeypatch.setattr(local, "_descend", spy)
    finish(federation)
    assert steps
    assert all(steps)
    assert all(
        value.isfinite().all()
        for name, value in state_of(federation).items()
        if name != "own" or federation.state.private.size
    )


@pytest.mark.parametrize("name", METHODS)
def test_resume_is_bit_exact_from_every_place(name: str, tmp_path: Path) -> None:
    """Saved at every client and round end; continued from each of them in a new process's stead."""
    whole = small(TWO, method(name))
    unbroken = numbers(finish(whole))
    places = sum(1 for _ in small(TWO, method(name)).run())
    for place in range(1, places):
        first, path = small(TWO, method(name)), tmp_path / str(place)
        for count, _ in enumerate(first.run(), start=1):
            if count == place:
                checkpoint.save(first, path / "checkpoint.safetensors", path / "segments", "run")
                break
        for segment in (path / "segments").rglob("*.parquet"):
            segment.unlink()  # as where a run dies before it is written: the checkpoint holds it
        second = small(TWO, method(name))
        assert checkpoint.resume(second, path / "checkpoint.safetensors", path / "segments", "run")
        assert everything(second) == everything(first)
        finish(second)
        for kind in ("statistics", "diagnostics"):
            tables = getattr(second, kind), getattr(whole, kind)
            rest, expected = (packed(getattr(one, "table", one)) for one in tables)
            counted = [pq.read_table(file) for file in sorted((path / "segments" / kind).glob("*"))]
            assert pa.concat_tables([*counted, rest]).equals(expected)
        written = [row for file in sorted((path / "segments").glob("*.parquet")) for row in read(file)]
        assert written + numbers(second) == unbroken
        second.records.rows = whole.records.rows
        second.diagnostics.table.rows = whole.diagnostics.table.rows
        assert everything(second) == everything(whole)


def packed(table: Table) -> pa.Table:
    return pq.read_table(io.BytesIO(table.pack()))


def read(segment: Path) -> list[tuple[object, ...]]:
    from fedshift.federation.records import Records

    class Stored:
        records = Records()

    Stored.records.unpack(segment.read_bytes())
    return numbers(Stored)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", METHODS)
def test_partial_participation_and_a_client_smaller_than_a_batch(name: str) -> None:
    run = spec(local={"batch": 50, "batch_rule": "wrap"}, federation={"rounds": 3, "participation": 0.67})
    federation = finish(small(run, method(name)))
    assert sum(federation.state.visits) == (3 if federation.method.clients == "pooled" else 6)
    assert federation.state.row[federation.state.shared.at].isfinite().all()
    tested = [
        (row["round"], row["client"], row["value"])
        for row in federation.records.rows
        if (row["model"], row["stage"]) == federation.evaluator.reported
        and (row["split"], row["metric"]) == ("test", "accuracy")
    ]
    assert sorted(one[:2] for one in tested) == [(finished, k) for finished in range(4) for k in range(3)]
    found = points(pq.read_table(io.BytesIO(federation.records.pack())))
    for point in (point for point in found if point.name == "id/acc"):
        by_client = [value for finished, _, value in tested if finished == point.round]
        assert point.value == pytest.approx(sum(by_client) / 3, abs=1e-12)
    assert sum(point.name == "id/acc" for point in found) == 4


def test_participation_and_batches_are_the_same_for_all_methods(monkeypatch: pytest.MonkeyPatch) -> None:
    Turn = tuple[list[int], int, list[int]]  # training samples, steps, order of batches
    seen: dict[str, dict[tuple[int, int], Turn]] = {}
    trained = loop.train
    run = spec(federation={"rounds": 3, "participation": 0.67})
    for name in METHODS:
        turns: dict[tuple[int, int], Turn] = {}

        def spy(self: Client, hooks: Method, turns: dict[tuple[int, int], Turn] = turns) -> Tensor:
            result = trained(self, hooks)
            order = schedule(self.n, run.local, run.seed, self.t, self.k, True).order.tolist()
            turns[self.t, self.k] = (self.worker.clients[self.k].train.tolist(), self.steps, order)
            return result

        federation = small(run, method(name))
        if federation.method.clients == "pooled":
            continue
        with monkeypatch.context() as patch:
            patch.setattr(loop, "train", spy)
            finish(federation)
        seen[name] = turns
    assert len(seen) >= 6
    assert len(seen["fedavg"]) == 6
    assert all(turns == seen["fedavg"] for turns in seen.values())


def test_all_methods_share_the_partition_and_the_prepared_images() -> None:
    runs = [spec(method={"name": name}, data={"target": "ink"}) for name in METHODS]
    assert len({partition_name(run) for run in runs}) == 1
    assert len({prepared_name(run.data) for run in runs}) == 1
    assert partition_name(runs[0]) != partition_name(spec(data={"target": "ink"}, seed=1))
