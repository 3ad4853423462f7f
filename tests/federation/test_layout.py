"""Layout and network: every tensor of a model has a place in a row, aligned or not, and a network on a row computes what the model computes."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from fedshift.common.errors import FedshiftError
from fedshift.common.registry import get, names
from fedshift.federation import checkpoint
from fedshift.federation.layout import ALIGNMENT, Layout, Network, initial
from fedshift.federation.loop import Federation
from fedshift.models.base import Model
from fedshift.testing.toys import aliased, finish, method, small, spec


def build(name: str = "digits_cnn") -> Model:
    chosen = get("models", name)
    model: Model = chosen(3, max(32, chosen.min_px))
    return model


@pytest.mark.parametrize("name", names("models"))
def test_layout_covers_every_tensor_once(name: str) -> None:
    model = build(name)
    layout = Layout(model)
    assert sum(tensor.numel() for tensor in model.parameters()) == layout.P
    assert sum(tensor.numel() for tensor in model.buffers() if tensor.is_floating_point()) == layout.Q
    covered = torch.zeros(layout.size, dtype=torch.int64)
    for entry in layout.entries:
        covered[entry.slice] += 1
        assert (entry.kind == "bn_statistic") == entry.name.endswith(("running_mean", "running_var"))
        assert (entry.offset >= layout.P) == (entry.kind in ("bn_statistic", "statistic"))
    assert covered.eq(1).all()


def test_index_sets() -> None:
    layout = Layout(build())
    bn = layout.kind("bn_affine", "bn_statistic")
    assert isinstance(layout.everything.at, slice)
    assert isinstance(bn.at, torch.Tensor)
    assert bn.size + (~bn).size == layout.size
    assert (bn & ~bn).size == 0
    assert (bn | ~bn).size == layout.size
    row = torch.arange(float(layout.size))
    assert row[bn.at].tolist() == [float(i) for i in bn.mask.nonzero().flatten()]
    assert (layout.nothing | bn) is bn
    assert (bn | layout.nothing) is bn
    first, second, third = layout.entries[:3]
    adjoining = layout.select(lambda entry: entry in (first, second))
    assert adjoining.at == slice(0, second.slice.stop)
    scattered = layout.select(lambda entry: entry in (first, third))
    assert row[scattered.at].equal(torch.cat([row[first.slice], row[third.slice]]))
    assert layout.select(lambda entry: False).size == 0


CPU = torch.device("cpu")


@pytest.mark.parametrize("name", ["alexnet_bn", "mobilenet", "vit_small"])
def test_a_network_on_a_row_computes_what_the_model_computes(name: str) -> None:
    model, px = build(name), max(32, get("models", name).min_px)
    layout = Layout(model)
    row = torch.zeros(layout.size)
    tensors = dict(model.named_parameters()) | dict(model.named_buffers())
    for entry_name, view in layout.named(row).items():
        view.copy_(tensors[entry_name].detach())
    x = torch.randn(2, 3, px, px, generator=torch.Generator().manual_seed(0))
    expected = model.eval()(x).logits
    network = Network(build(name), layout, CPU).bind(row)
    torch.testing.assert_close(network.model.eval()(x).logits, expected, rtol=1e-4, atol=1e-5)
    assert aliased(network)
    for weight in network.model.parameters():
        if weight.dim() == 4:
            assert weight.is_contiguous(memory_format=torch.channels_last)


FLOATS, BYTES = ALIGNMENT["cuda"], 16  # the three classes of `build` end the head at no multiple of them


@pytest.mark.parametrize("name", ["alexnet_bn", "mobilenet", "vit_small"])
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


def trained(patch: pytest.MonkeyPatch, alignment: int, name: str, **hp: Any) -> Federation:
    patch.setitem(ALIGNMENT, "cpu", alignment)
    return finish(small(spec(method={"name": name, "params": hp}), method(name, **hp)))


def counted(federation: Federation) -> list[dict[str, Any]]:
    """All records, without what a clock or the memory of the process says."""
    rows = [row for row in federation.records.rows if row["metric"] not in ("seconds", "peak_memory_mb")]
    return [{key: value for key, value in row.items() if key != "time"} for row in rows]


@pytest.mark.parametrize("name", ["fdse", "hfedf"])
def test_methods_train_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    packed, aligned = (trained(monkeypatch, floats, name) for floats in (1, FLOATS))
    assert aligned.layout.size > packed.layout.size
    entries = aligned.layout.named(aligned.state.row)
    for entry, value in packed.layout.named(packed.state.row).items():
        torch.testing.assert_close(entries[entry], value, rtol=0, atol=0, equal_nan=True)
    assert counted(aligned) == counted(packed)
    assert aligned.server.peeked == packed.server.peeked


def test_a_checkpoint_of_another_device_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = tmp_path / "checkpoint", tmp_path / "segments", "run"
    checkpoint.save(trained(monkeypatch, FLOATS, "fedavg"), *here)
    monkeypatch.setitem(ALIGNMENT, "cpu", 1)
    with pytest.raises(FedshiftError, match="was not written on a cpu"):
        checkpoint.resume(small(spec(), method("fedavg")), *here)


class Bare(Model):
    """A network with a parameter that no module initialises."""

    name = "bare"

    def __init__(self) -> None:
        super().__init__(2, 8)
        self.weight = nn.Parameter(torch.randn(5))
        self.indicator = "weight"


def test_the_start_is_the_seeds_whatever_was_drawn_before() -> None:
    rows = []
    for before, seed in ((1, 0), (2, 0), (1, 3)):
        torch.manual_seed(before)
        rows.append(initial(Bare, seed)[2])
    assert rows[0].equal(rows[1]) and not rows[0].equal(rows[2])


def test_a_layouts_hash_is_of_its_entries() -> None:
    hashes = {Layout(build()).hash, Layout(build()).hash, Layout(build("lenet")).hash}
    assert len(hashes) == 2 and {len(text) for text in hashes} == {16}
