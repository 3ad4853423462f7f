"""Rows as a GPU wants them, trained on the CPU: entries begin at 16 bytes, and nothing that is computed or counted changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from fedshift.common.errors import FedshiftError
from fedshift.common.registry import names
from fedshift.federation import checkpoint
from fedshift.federation.layout import ALIGNMENT, Layout, Network
from fedshift.federation.loop import Federation
from fedshift.testing.toys import finish, method, small, spec
from tests.federation.test_layout import build

FLOATS, BYTES = ALIGNMENT["cuda"], 16  # the three classes of `build` end the head at no multiple of them


@pytest.mark.parametrize("name", names("models"))
def test_every_entry_of_every_row_begins_at_16_bytes(name: str) -> None:
    model = build(name)
    layout = Layout(model, FLOATS)
    rows = torch.zeros(3, layout.size)
    for row in rows:
        for tensor in (*Network(model, layout, rows.device).bind(row).model.parameters(), *model.buffers()):
            assert not tensor.is_floating_point() or tensor.data_ptr() % BYTES == 0
    packed = Layout(model)
    assert layout.floats(layout.everything) == layout.floats(layout.trainable) + packed.Q == packed.size
    assert layout.floats(layout.trainable) == packed.P


def test_entries_that_adjoin_but_for_padding_are_one_slice() -> None:
    layout = Layout(build("digits_cnn"), FLOATS)
    first, second = layout.entries[:2]
    assert isinstance(layout.select(lambda entry: entry in (first, second)).at, slice)
    assert layout.tail("") == 0


def trained(patch: pytest.MonkeyPatch, alignment: int, name: str, **hp: Any) -> Federation:
    patch.setitem(ALIGNMENT, "cpu", alignment)
    return finish(small(spec(method={"name": name, "params": hp}), method(name, **hp)))


def counted(federation: Federation) -> list[dict[str, Any]]:
    """All records, without what a clock or the memory of the process says."""
    rows = federation.records.rows
    clocks = ("seconds", "peak_memory_mb")
    return [
        {key: value for key, value in row.items() if key != "time"}
        for row in rows
        if row["metric"] not in clocks
    ]


@pytest.mark.parametrize("name", names("methods"))
def test_every_method_trains_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    packed, aligned = (trained(monkeypatch, floats, name) for floats in (1, FLOATS))
    assert aligned.layout.size > packed.layout.size
    entries = aligned.layout.named(aligned.state.row)
    for entry, value in packed.layout.named(packed.state.row).items():
        torch.testing.assert_close(entries[entry], value, rtol=0, atol=0, equal_nan=True)
    assert counted(aligned) == counted(packed)
    assert aligned.server.peeked == packed.server.peeked


def test_padding_within_the_weights_changes_no_more_than_the_order_of_sums(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A third of 16 features makes six of a half, and its batch normalisation begins anywhere."""
    packed, aligned = (trained(monkeypatch, floats, "fdse", G=3) for floats in (1, FLOATS))
    assert aligned.layout.P > packed.layout.P
    entries = aligned.layout.named(aligned.state.row)
    for entry, value in packed.layout.named(packed.state.row).items():
        torch.testing.assert_close(entries[entry], value, rtol=1e-4, atol=1e-5, equal_nan=True)


def test_a_checkpoint_of_another_device_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = tmp_path / "checkpoint", tmp_path / "segments", "run"
    checkpoint.save(trained(monkeypatch, FLOATS, "fedavg"), *here)
    monkeypatch.setitem(ALIGNMENT, "cpu", 1)
    with pytest.raises(FedshiftError, match="was not written on a cpu"):
        checkpoint.resume(small(spec(), method("fedavg")), *here)
