"""Accuracy, loss and statistics of one pass, by hand; which model of a client is tested and reported; which round is best."""

import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from torch.nn import functional as F

from fedshift.data.augment import Augment, Evaluate
from fedshift.federation import checkpoint
from fedshift.federation.batches import participants
from fedshift.federation.evaluate import BATCH, Scored, at_once, evaluate, evaluated_at_once
from fedshift.federation.evaluator import Selection
from fedshift.federation.loop import Federation
from fedshift.federation.records import BINS, STATISTICS, reported
from fedshift.federation.samples import Samples
from fedshift.testing.toys import finish, method, recorded, small, spec

SIZES = ((5, 7, 300), (6, 2, BATCH - 2))  # sets that batches cut through


def setup() -> tuple[Federation, list[tuple[int, str, torch.Tensor]]]:
    federation = finish(small(spec(federation={"rounds": 1}), method("fedbn"), 2, SIZES))
    clients = federation.evaluated_clients
    return federation, [(k, split, clients[k].split(split)) for k in (0, 1) for split in ("val", "test")]


def scored(federation: Federation, sets: list[tuple[int, str, torch.Tensor]]) -> list[Scored]:
    worker, row = federation.worker, federation.state.row.nan_to_num(0.1)
    return evaluate(worker.network("model"), row, worker.samples, sets, worker.precision)


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
    transforms = Augment("none", px, px, "half"), Evaluate(px, px, "half")
    assert at_once(Samples(pixels, torch.zeros(2).long(), *transforms)) == together


@pytest.mark.parametrize(("px", "together"), [(32, 2000), (64, 2000), (128, 682), (227, BATCH)])
def test_more_small_images_are_tested_together_on_a_gpu(px: int, together: int) -> None:
    samples: Any = SimpleNamespace(device=torch.device("cuda"), pixels=torch.empty(1, px, px, 3))
    assert evaluated_at_once(samples) == together and at_once(samples) == BATCH
    samples.device = torch.device("cpu")
    assert evaluated_at_once(samples) == at_once(samples)


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


LOCAL, PERSONALISED, GLOBAL = ("personal", "post_train"), ("personal", "post_agg"), ("global", "post_agg")


FEW = {"rounds": 5, "participation": 0.34}


def recorded_of(federation: Federation, split: str, metric: str = "accuracy") -> dict[tuple[int, int], float]:
    """(round, client) -> value for the reported model, each once."""
    rows = [
        row
        for row in federation.records.rows
        if (row["model"], row["stage"]) == federation.evaluator.reported
        and (row["split"], row["metric"]) == (split, metric)
    ]
    found = {(row["round"], row["client"]): row["value"] for row in rows}
    assert len(found) == len(rows)
    return found


def test_local_before_personalised_before_global() -> None:
    assert reported({GLOBAL, PERSONALISED, LOCAL}) == LOCAL
    assert reported({GLOBAL, PERSONALISED}) == PERSONALISED
    assert reported({GLOBAL}) == reported(set()) == GLOBAL


@pytest.mark.parametrize("name", ["fedbn", "ditto"])
def test_an_inactive_client_is_tested_as_it_stands(name: str) -> None:
    """One of three takes part: the others are tested with what they keep, inside what the round broadcast."""
    run = spec(federation=FEW)
    federation = small(run, method(name))
    slot = federation.method.evaluates
    by_round: list[int] = []
    weights = [len(client.train) for client in federation.clients]
    events = federation.run()
    wanted: dict[tuple[int, int, str], tuple[float, float]] = {}
    for finished in range(1, 6):
        (active,) = participants(3, 0.34, 0, finished - 1)
        for k in {0, 1, 2} - {active}:
            row = federation.state.row.clone()
            if slot == "model":
                row[federation.state.private.at] = federation.state.own[k]
            elif federation.state.visits[k]:
                row = federation.state.slots[slot][k].clone()
            sets = [(k, split, federation.clients[k].split(split)) for split in ("val", "test")]
            worker = federation.worker
            for one in evaluate(worker.network("model"), row, worker.samples, sets, worker.precision):
                wanted[finished, k, one.split] = one.accuracy, one.loss
        assert next(events) == finished
        by_round.append(active)
    assert len(set(by_round)) > 1
    val, test = recorded_of(federation, "val"), recorded_of(federation, "test")
    losses = {split: recorded_of(federation, split, "loss") for split in ("val", "test")}
    assert sorted(val) == sorted(test) == [(finished, k) for finished in range(6) for k in range(3)]
    assert len(wanted) == 5 * 2 * 2
    for (finished, k, split), values in wanted.items():
        accuracy = {"val": val, "test": test}[split][finished, k]
        assert (accuracy, losses[split][finished, k]) == values
    means = [sum(weights[k] * val[finished, k] for k in range(3)) / sum(weights) for finished in range(6)]
    best = max(means)
    assert federation.evaluator.selection.value["first"] == pytest.approx(best, abs=1e-9)
    assert federation.evaluator.selection.round["first"] == min(
        finished for finished, mean in enumerate(means) if mean == pytest.approx(best, abs=1e-9)
    )


@pytest.mark.parametrize(("name", "passes"), [("fedbn", 3), ("hfedf", 0)])
def test_inactive_clients_cost_passes_in_evaluated_rounds_alone(
    name: str, passes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """4 rounds, evaluated untrained and after 3 and 4; as many passes however many take part, none for methods without own models."""
    from fedshift.federation import evaluator

    counts = []
    for share in (1.0, 0.34):
        run = spec(federation={"rounds": 4, "participation": share}, evaluation={"every": 3})
        with monkeypatch.context() as patch:
            calls = recorded(evaluator, "evaluate", patch)
            federation = finish(small(run, method(name)))
        counts.append(len(calls))
        own = [row for row in federation.records.rows if row["stage"] == "post_train"]
        assert sorted({row["round"] for row in own}) == ([0, 3, 4] if passes else [])
        assert len({(row["round"], row["client"]) for row in own}) == 3 * passes
    assert counts[0] == counts[1]


@pytest.mark.parametrize("name", ["ditto", "fdse"])
def test_resume_with_inactive_clients(name: str, tmp_path: Path) -> None:
    """Two of three a round: to the same records and choice."""
    run = spec(federation={"rounds": 2, "participation": 0.67})
    whole = finish(small(run, method(name)))
    places = tmp_path / "checkpoint", tmp_path / "segments", "run"
    checkpoint.save(finish(small(run, method(name)), 1), *places)
    second = small(run, method(name))
    checkpoint.resume(second, *places)
    rest = without_time(finish(second))
    assert {row["round"] for row in rest} == {2}  # the first one is in its segment
    assert rest == without_time(whole)[-len(rest) :]
    ours, theirs = second.evaluator.selection, whole.evaluator.selection
    assert (ours.value, ours.round) == (theirs.value, theirs.round)
    for tie, weights in theirs.best_weights.items():
        assert all(value.equal(weights[name]) for name, value in ours.best_weights[tie].items())


def without_time(federation: Federation) -> list[dict[str, Any]]:
    rows = [row for row in federation.records.rows if row["stage"] != "machine"]
    return [{key: value for key, value in row.items() if key != "time"} for row in rows]


def test_the_first_and_the_later_of_equal_rounds() -> None:
    """Equal but for the order of the sum; clients without validation samples do not count."""
    selection = Selection(torch.device("cpu"))
    for finished, accuracies in enumerate(
        [{0: 0.2, 1: 0.5}, {0: 0.5, 1: 0.4}, {0: 0.4, 1: 0.45}, {0: 0.5, 1: 0.4}]
    ):
        selection.validation = dict(accuracies)
        selection.consider(finished, {0: 10, 1: 20, 2: 70}, {"row": torch.tensor([float(finished)])})
    assert selection.round == {"first": 1, "later": 3}
    assert [selection.best_weights[tie]["row"].item() for tie in ("first", "later")] == [1.0, 3.0]
    selection.consider(4, {0: 10, 1: 20}, {})
    assert selection.round == {"first": 1, "later": 3}
