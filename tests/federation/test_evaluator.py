"""Which model of a client is tested and reported: its own, also where it is inactive; a generated one; the global one."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fedshift.federation import checkpoint
from fedshift.federation.batches import participants
from fedshift.federation.evaluate import evaluate
from fedshift.federation.loop import Federation
from fedshift.federation.records import reported
from fedshift.testing.toys import finish, method, recorded, small, spec
from fedshift.tracking.points import points

LOCAL, PERSONALISED, GLOBAL = ("personal", "post_train"), ("personal", "post_agg"), ("global", "post_agg")
FEW = {"rounds": 5, "participation": 0.34}
SHOWN = [
    *((name, LOCAL) for name in ("ditto", "fdse", "fedbn", "lgfedavg", "local", "partialfed")),
    *((name, PERSONALISED) for name in ("hfedf", "pfedhn")),
    *((name, GLOBAL) for name in ("central", "fedavg", "fedsr")),
]


def table(federation: Federation) -> pa.Table:
    """The records, as a reader of the run's Parquet file gets them."""
    return pq.read_table(io.BytesIO(federation.records.pack()))


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


@pytest.mark.parametrize(
    ("tested", "first"),
    [
        ({GLOBAL, PERSONALISED, LOCAL}, LOCAL),
        ({GLOBAL, PERSONALISED}, PERSONALISED),
        ({GLOBAL}, GLOBAL),
        (set(), GLOBAL),
    ],
)
def test_local_before_personalised_before_global(
    tested: set[tuple[str, str]], first: tuple[str, str]
) -> None:
    assert reported(tested) == first


@pytest.mark.parametrize(("name", "model"), SHOWN)
def test_mlflow_shows_of_the_records_what_tables_show(name: str, model: tuple[str, str]) -> None:
    """`points` sees the records alone, `Evaluator` the method: both must speak of the same model. Means by hand."""
    federation = finish(small(spec(federation={"rounds": 1}), method(name)))
    assert federation.evaluator.reported == model
    partition = federation.spec.partition.model_dump()
    shown = points(table(federation), partition=partition)
    found = {(point.name, point.round): point.value for point in shown}
    for metric, split in (("acc/id", "test"), ("acc/val", "val")):
        by_hand = recorded_of(federation, split)
        for finished in (0, 1):
            mean = (by_hand[finished, 0] + by_hand[finished, 1] + by_hand[finished, 2]) / 3
            assert found[metric, finished] == pytest.approx(mean, abs=1e-12)


@pytest.mark.parametrize("name", ["fedbn", "lgfedavg", "fdse", "ditto", "partialfed"])
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


@pytest.mark.parametrize(("name", "passes"), [("fedbn", 3), ("ditto", 3), ("fedavg", 0), ("hfedf", 0)])
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


@pytest.mark.parametrize("name", ["fedbn", "ditto", "fdse"])
def test_resume_with_inactive_clients(name: str, tmp_path: Path) -> None:
    """Two of three a round: to the same records and choice."""
    run = spec(federation={"rounds": 2, "participation": 0.67})
    whole = finish(small(run, method(name)))
    places = tmp_path / "checkpoint", tmp_path / "segments", "run"
    checkpoint.save(finish(small(run, method(name)), 1), *places)
    second = small(run, method(name))
    assert checkpoint.resume(second, *places)
    rest = without_time(finish(second))
    assert {row["round"] for row in rest} == {2}  # the first one is in its segment
    assert rest == without_time(whole)[-len(rest) :]
    ours, theirs = second.evaluator.selection, whole.evaluator.selection
    assert (ours.value, ours.round) == (theirs.value, theirs.round)
    for tie, weights in theirs.best_weights.items():
        assert all(value.equal(weights[name]) for name, value in ours.best_weights[tie].items())


def without_time(federation: Federation) -> list[dict[str, Any]]:
    return [
        {key: value for key, value in row.items() if key != "time"}
        for row in federation.records.rows
        if row["stage"] != "machine"
    ]


@pytest.mark.parametrize(
    ("keep", "names"),
    [("none", set()), ("post_agg", {"row", "own"})],
)
def test_kept_weights(keep: str, names: set[str]) -> None:
    federation = finish(small(spec(evaluation={"keep": keep}), method("fedbn")))
    assert set(federation.evaluator.weights()) == names
    assert all(set(weights) == names for weights in federation.evaluator.selection.best_weights.values())
