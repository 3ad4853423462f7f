"""Accuracy, loss and statistics of one pass, against a pass by hand; what a run records of them."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from torch.nn import functional as F

from fedshift.data.augment import Augment, Evaluate
from fedshift.federation import checkpoint
from fedshift.federation.evaluate import BATCH, Scored, at_once, evaluate
from fedshift.federation.loop import Federation
from fedshift.federation.records import BINS, STATISTICS, union
from fedshift.federation.samples import Samples
from fedshift.testing.toys import finish, images, method, small, spec

SIZES = ((5, 7, 300), (6, 2, BATCH - 2))  # sets that batches cut through


def setup() -> tuple[Federation, list[tuple[int, str, torch.Tensor]]]:
    federation = finish(small(spec(federation={"rounds": 1}), method("fedbn"), 2, SIZES))
    clients = federation.evaluated_clients
    return federation, [(k, split, clients[k].split(split)) for k in (0, 1) for split in ("val", "test")]


def scored(federation: Federation, sets: list[tuple[int, str, torch.Tensor]]) -> list[Scored]:
    worker = federation.worker
    return evaluate(
        worker.network("model"), federation.state.row.nan_to_num(0.1), worker.samples, sets, worker.precision
    )


@torch.no_grad()
def by_hand(
    federation: Federation, positions: torch.Tensor, everything: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits and labels of a set, in the batches in which all sets are computed together."""
    samples = federation.worker.samples
    model = federation.worker.network("model").bind(federation.state.row.nan_to_num(0.1)).model.eval()
    parts = [model(samples.evaluate(samples.take(part)[0])).logits for part in everything.split(BATCH)]
    where = torch.cat([(everything == position).nonzero()[:1, 0] for position in positions])
    return torch.cat(parts).float()[where], samples.take(positions)[1]


def test_accuracy_and_loss_are_means_of_samples_to_the_last_bit() -> None:
    """As they were computed before there were statistics: argmax of the logits, torch's cross entropy, means in float64."""
    federation, sets = setup()
    everything = torch.cat([positions for _, _, positions in sets])
    for result, (client, split, positions) in zip(scored(federation, sets), sets, strict=True):
        logits, y = by_hand(federation, positions, everything)
        assert (result.client, result.split, result.n) == (client, split, len(positions))
        assert result.accuracy == (logits.argmax(1) == y).double().mean().item()
        assert result.loss == F.cross_entropy(logits, y, reduction="none").double().mean().item()


@pytest.mark.parametrize(("px", "together"), [(32, BATCH), (64, BATCH), (224, 34), (256, 26), (4000, 1)])
def test_few_large_images_pass_together_on_a_cpu(px: int, together: int) -> None:
    pixels = torch.empty(1, dtype=torch.uint8).expand(2, px, px, 3)
    assert (
        at_once(
            Samples(pixels, torch.zeros(2).long(), Augment("none", px, px, "half"), Evaluate(px, px, "half"))
        )
        == together
    )


def test_statistics_count_by_class_and_by_confidence() -> None:
    federation, sets = setup()
    everything = torch.cat([positions for _, _, positions in sets])
    for result, (_, _, positions) in zip(scored(federation, sets), sets, strict=True):
        logits, y = by_hand(federation, positions, everything)
        correct, confidence = logits.argmax(1) == y, logits.softmax(1).amax(1)
        loss, statistics = F.cross_entropy(logits, y, reduction="none"), result.statistics
        for label in range(2):
            own = y == label
            assert (statistics.n[label], statistics.correct[label]) == (own.sum(), (own & correct).sum())
            assert statistics.loss[label] == pytest.approx(loss[own].mean().item(), rel=1e-5)
        for place in range(BINS):
            inside = (confidence * BINS).long().clamp(max=BINS - 1) == place
            assert statistics.right[place] == (inside & correct).sum()
            assert statistics.wrong[place] == (inside & ~correct).sum()
            assert statistics.confidence[place] == pytest.approx(confidence[inside].sum().item(), rel=1e-5)


def test_the_union_of_sets_has_the_sums() -> None:
    federation, sets = setup()
    results = [result for result in scored(federation, sets) if result.split == "test"]
    arrays = {
        name: np.stack([getattr(result.statistics, name) for result in results])
        for name in vars(results[0].statistics)
    }
    together = union(arrays)
    (expected,) = scored(federation, [(0, "test", torch.cat([sets[1][2], sets[3][2]]))])
    for name, array in vars(expected.statistics).items():
        np.testing.assert_allclose(together[name][0], array, rtol=1e-5)


def test_a_model_that_diverged_is_counted() -> None:
    """NaN logits: every sample is counted once, in the lowest bin."""
    federation, sets = setup()
    federation.state.row.fill_(torch.inf)
    row, worker = torch.full_like(federation.state.row, torch.nan), federation.worker
    for result in evaluate(worker.network("model"), row, worker.samples, sets, worker.precision):
        assert result.statistics.n.sum() == result.n
        assert result.statistics.right[0] + result.statistics.wrong[0] == result.n
        assert np.isnan(result.loss) and np.isnan(result.statistics.confidence[0])


def test_every_evaluated_set_has_its_statistics() -> None:
    """One row for each accuracy that is recorded, with the same correct samples."""
    federation = finish(small(spec(federation={"rounds": 2}), method("ditto")))
    accuracies = [row for row in federation.records.rows if row["metric"] == "accuracy"]
    statistics = pq.read_table(io.BytesIO(federation.statistics.pack()))
    assert statistics.schema.equals(STATISTICS)
    keys = ("round", "stage", "model", "member", "client", "split")
    for accuracy, row in zip(accuracies, statistics.to_pylist(), strict=True):
        assert [row[key] for key in keys] == [accuracy[key] for key in keys]
        assert sum(row["correct"]) / sum(row["n"]) == accuracy["value"]
        assert sum(row["wrong"]) + sum(row["right"]) == accuracy["n"] == sum(row["n"])


def test_statistics_of_a_resumed_run_are_the_same_bytes(tmp_path: Path) -> None:
    run = spec(federation={"rounds": 2})
    segments: list[dict[str, bytes]] = []
    for stops in (False, True):
        folder, federation = tmp_path / str(stops), small(run, method("fedbn"))
        places = folder / "checkpoint", folder / "segments", "run"
        checkpoint.save(finish(federation, 1), *places)
        if stops:
            federation = small(run, method("fedbn"))
            assert checkpoint.resume(federation, *places)
        checkpoint.save(finish(federation), *places)
        paths = sorted((folder / "segments" / "statistics").glob("*.parquet"))
        segments.append({path.name: path.read_bytes() for path in paths})
    assert segments[0] == segments[1]
    assert [*segments[0]] == ["000000-000001.parquet", "000002-000002.parquet"]


def test_images_are_tested_once_however_many_sets_there_are() -> None:
    """The toy has what the tests above rely on: batches end inside sets."""
    _, held, _ = images(2, SIZES)
    assert sum(len(client.val) + len(client.test) for client in held) > 2 * BATCH


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
