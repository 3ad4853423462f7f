"""The contract of every method: what travels, where gradients are stored, resume, participation."""

import io
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from pytest import MonkeyPatch
from torch import Tensor

from fedshift.federation import checkpoint, local
from fedshift.federation.client import Client
from fedshift.federation.loop import Federation, Transfer
from fedshift.federation.records import Table, reproducible
from fedshift.testing.contract.server_rules import Contract, captured
from fedshift.testing.toys import aliased, finish, method, small, spec, tensors
from fedshift.tracking.points import points

RUN = spec(local={"momentum": 0.9, "optimizer_state": "persist", "clip": 5.0}, federation={"rounds": 3})


class Poisoned(Transfer):
    """Transfer in which all that is not declared to travel is NaN on the receiving side."""

    def down(self, row: Tensor, client: int, source: Tensor, again: bool = False) -> None:
        row.fill_(torch.nan)
        super().down(row, client, source, again)


def state_of(federation: Federation) -> object:
    """A copy of every tensor of a federation's state, whose `==` compares bit for bit."""
    return plain(tensors(federation))


def everything(federation: Federation) -> dict[str, object]:
    """The state that the rest of a run and its summary depend on between two rounds; tensors as bytes."""
    state = federation.state
    held: dict[str, object] = {"row": state.row, "own": state.own, "slots": state.slots}
    held |= {"optimizers": {key: memory for key, memory in state.optimizers.items() if memory}}
    held |= {"records": reproducible(packed(federation.records))}
    held |= {"diagnostics": packed(federation.log.table)}
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


def packed(table: Table) -> pa.Table:
    """Records, statistics or diagnostics as they are written to disk."""
    return pq.read_table(io.BytesIO(table.pack()))


class MethodContract(Contract):
    """Tests of whole small runs."""

    def test_only_what_is_declared_travels(self, name: str) -> None:
        """With all else NaN on the receiving side, the run is the same bit for bit."""
        poisoned = finish(small(RUN, method(name), transfer=Poisoned))
        assert state_of(poisoned) == state_of(finish(small(RUN, method(name))))

    def test_local_entries_never_reach_the_server(self, name: str, monkeypatch: MonkeyPatch) -> None:
        """`aggregate` sees NaN there, and numbers in what is shared."""
        federation = small(RUN, method(name))
        rounds = captured(federation, monkeypatch)
        assert len(rounds) >= 3
        for one in rounds:
            assert one.rows[:, federation.state.local.at].isnan().all()
            assert one.rows[:, federation.state.shared.at].isfinite().all()

    def test_every_entry_has_one_class(self, name: str) -> None:
        """Shared, personal or local."""
        state = small(RUN, method(name)).state
        assert (state.shared.mask.int() + state.personal.mask.int() + state.local.mask.int()).eq(1).all()

    @pytest.mark.parametrize("precision", ["fp32", "bf16"])
    def test_gradients_stay_in_the_flat_vector(
        self, name: str, precision: str, monkeypatch: MonkeyPatch
    ) -> None:
        """After every step tensors and gradients are still views, and all numbers finite."""
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
        assert steps and all(steps)
        assert all(value.isfinite().all() for value in tensors(federation).values())

    def test_resume_is_bit_exact_from_every_round(self, name: str, tmp_path: Path) -> None:
        """Saved after a round and continued in a new process's stead."""
        whole = small(RUN, method(name))
        finish(whole)
        for place in (1, 2):
            first, path = finish(small(RUN, method(name)), place), tmp_path / str(place)
            checkpoint.save(first, path / "saved.safetensors", path / "segments", "run")
            for segment in (path / "segments").rglob("*.parquet"):
                segment.unlink()  # as where a run dies before it is written: the checkpoint holds it
            second = small(RUN, method(name))
            checkpoint.resume(second, path / "saved.safetensors", path / "segments", "run")
            assert second.round == place
            assert everything(second) == everything(first)
            finish(second)
            pairs = {
                "*.parquet": (second.records, whole.records),
                "statistics/*": (second.statistics, whole.statistics),
                "diagnostics/*": (second.log.table, whole.log.table),
            }
            for pattern, pair in pairs.items():
                rest, expected = map(packed, pair)
                written = [pq.read_table(file) for file in sorted((path / "segments").glob(pattern))]
                found = pa.concat_tables([*written, rest])
                if pattern == "*.parquet":
                    found, expected = reproducible(found), reproducible(expected)
                assert found.equals(expected)
            second.records.rows = whole.records.rows
            second.log.table.rows = whole.log.table.rows
            assert everything(second) == everything(whole)

    def test_partial_participation_and_a_client_smaller_than_a_batch(self, name: str) -> None:
        """Two of three clients a round, batches larger than a client: all are tested in every round."""
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
        assert sorted(row[:2] for row in tested) == [(finished, k) for finished in range(4) for k in range(3)]
        tracked = points(packed(federation.records), partition=federation.spec.partition.model_dump())
        for point in (point for point in tracked if point.name == "acc/id"):
            by_client = [value for finished, _, value in tested if finished == point.round]
            assert point.value == pytest.approx(sum(by_client) / 3, abs=1e-12)
        assert sum(point.name == "acc/id" for point in tracked) == 4
