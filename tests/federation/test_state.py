"""Layout, networks on flat rows, transfers and their bytes, evaluation, the average."""

from __future__ import annotations

import pytest
import torch

from fedshift.common.registry import get, names
from fedshift.federation.aggregate import mean
from fedshift.federation.evaluate import evaluate
from fedshift.federation.layout import Layout
from fedshift.federation.network import Network, initial
from fedshift.models.base import Model
from fedshift.testing.spies import aliased
from fedshift.testing.toys import finish, images, method, small, spec

CPU = torch.device("cpu")


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


@pytest.mark.parametrize("name", names("models"))
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


def test_the_start_is_keyed_by_seed_and_module() -> None:
    _, layout, row = initial(build, 0)
    torch.rand(3)
    assert initial(build, 0)[2].equal(row)
    assert not initial(build, 1)[2].equal(row)
    named = layout.named(row)
    assert all(named[name].eq(1).all() for name in named if name.endswith("running_var"))
    other = layout.named(initial(lambda: get("models", "digits_cnn")(3, 32), 0)[2])
    assert all(other[name].equal(named[name]) for name in named)


def test_mean() -> None:
    rows = torch.tensor([[1.0, 2.0], [3.0, 6.0]])
    assert mean(rows, torch.tensor([0.25, 0.75])).tolist() == [2.5, 5.0]
    assert rows.tolist() == [[1.0, 2.0], [3.0, 6.0]]  # they are the clients'
    assert mean(rows[:1], torch.tensor([1.0])).equal(rows[0])


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


def test_evaluation_is_the_mean_over_each_set() -> None:
    federation = small(spec(), method("fedavg"))
    samples, clients, target = images()
    sets = [
        (0, "val", clients[0].val),
        (1, "test", clients[1].test),
        (-1, "target", target),
        (2, "val", torch.empty(0, dtype=torch.int64)),
    ]
    scored = evaluate(
        federation.worker.network("model"), federation.state.row, samples, sets, federation.worker.precision
    )
    assert [(one.client, one.split, one.n) for one in scored] == [
        (0, "val", 3),
        (1, "test", 4),
        (-1, "target", 12),
    ]
    model = federation.worker.network("model").bind(federation.state.row).model.eval()
    for one, (_, _, positions) in zip(scored, sets, strict=False):
        pixels, y = samples.take(positions)
        with torch.no_grad():
            logits = model(samples.evaluate(pixels)).logits
        assert one.accuracy == pytest.approx((logits.argmax(1) == y).double().mean().item())
        assert one.loss == pytest.approx(torch.nn.functional.cross_entropy(logits, y).item(), rel=1e-5)


def test_training_learns() -> None:
    federation = finish(
        small(
            spec(local={"lr": 0.05, "momentum": 0.9, "epochs": 5}, federation={"rounds": 4}), method("fedavg")
        )
    )
    accuracy = {
        row["round"]: row["value"]
        for row in federation.records.rows
        if row["metric"] == "accuracy" and row["client"] == -1
    }
    assert accuracy[4] == 1.0


@pytest.mark.parametrize(
    ("keep", "names"),
    [("none", set()), ("post_agg", {"row", "own"})],
)
def test_kept_weights(keep: str, names: set[str]) -> None:
    federation = finish(small(spec(evaluation={"keep": keep}), method("fedbn")))
    assert set(federation.evaluator.weights()) == names
    assert all(set(weights) == names for weights in federation.evaluator.selection.best_weights.values())
