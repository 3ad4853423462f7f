"""The size of a run's state before it is made, against real checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fedshift.build import model_of
from fedshift.common.tensors import read_tensors
from fedshift.federation.checkpoint import save
from fedshift.planning.footprint import Footprint, footprint, taking_part
from fedshift.spec import RunSpec
from fedshift.spec.resolve import resolve
from fedshift.testing import toys

MESSAGES = (
    "records",
    "statistics",
    "diagnostics",
    *(f"progress/{name}" for name in ("measured", "messages", "first", "exchanged")),
)


def spec(name: str, **blocks: Any) -> RunSpec:
    return resolve(toys.spec(**{"method": {"name": name}, **blocks}))


AVERAGED = ("fedavg", "fedbn", "ditto", "local")  # of whose rows the server holds the average alone


def saved(run: RunSpec, folder: Path) -> tuple[int, int]:
    """Floats in a checkpoint before the last of three clients in the second round, and of a row.

    Messages, losses and Adam's counters of steps are left out.
    """
    federation = toys.small(run, toys.method(run.method.name))
    events = federation.run()
    for _ in range(2 if federation.state.clients == 1 else 5):  # client, client, round, client, client
        next(events)
    save(federation, folder / "checkpoint.safetensors", folder, "run")
    tensors, _ = read_tensors(folder / "checkpoint.safetensors", "")
    held = [
        tensor.numel()
        for name, tensor in tensors.items()
        if not (name.startswith(MESSAGES) or name.endswith("/step"))
    ]
    return sum(held), federation.layout.size


@pytest.mark.parametrize(
    ("name", "blocks"),
    [
        ("fedavg", {}),
        ("fedavg", {"evaluation": {"keep": "none"}, "local": {"optimizer": "adam", "optimizer_state": "persist"}}),
        ("fedbn", {}),
        ("ditto", {"local": {"momentum": 0.9, "optimizer_state": "persist"}}),
        ("scaffold", {}),
        ("local", {}),
        ("hfedf", {}),
        ("hfedf", {"evaluation": {"keep": "slots"}}),
        ("fedbn", {"evaluation": {"keep": "clients"}}),
    ],
)  # fmt: skip
def test_checkpoint_is_as_large_as_told(name: str, blocks: dict[str, Any], tmp_path: Path) -> None:
    run = spec(name, **blocks)
    floats, row = saved(run, tmp_path)
    waiting = 0 if name in AVERAGED else row  # of the client that has yet to train
    assert footprint(run, 3, 2).checkpoint - waiting == floats


def test_weights_by_hand() -> None:
    row, kept = 61319 + 352 - 5 * 65, 704  # as in the layout; two classes in place of seven
    assert footprint(spec("fedavg"), 3, 2) == Footprint((1 + 1 + 2) * row, row)  # of three rows their average
    assert footprint(spec("scaffold"), 3, 2).checkpoint == (1 + 3 + 2) * row + 4 * (row - 704 // 2)
    assert footprint(spec("fedbn"), 3, 2).weights == row + 3 * kept
    assert footprint(spec("hfedf"), 3, 2).weights == 3 * row
    assert footprint(spec("central"), 3, 2).weights == row
    none = spec("fedavg", evaluation={"keep": "none"}, federation={"participation": 0.34})
    assert footprint(none, 3, 2) == Footprint(2 * row, 0)


def test_a_hypernetwork_and_its_adam_count() -> None:
    """The plan said as much as for FedAvg, 57 MB, where one checkpoint takes 567 MiB."""
    run = spec("hfedf", model={"name": "hfedf_cnn"}, data={"normalise": "half"})
    p = 928_199  # seven classes
    h = 51 * p + 3 * 1 + (1 * 50 + 50) + 3 * (50 * 50 + 50)
    assert footprint(run, 3, 7).checkpoint == 3 * h + (1 + 3 + 2 * 3) * p


def test_centralised_training_has_one_client_whatever_the_protocol_says() -> None:
    """StableFDG's central runs were reckoned with ten rows of clients under way, where there is one."""
    part, whole = ({"federation": {"participation": share}} for share in (0.34, 1.0))
    pooled = spec("dsu", method={"name": "dsu", "params": {"centralized": True}}, **part)
    assert taking_part(pooled, 3) == (1, 1)
    assert taking_part(spec("dsu", **part), 3) == (1, 3)
    assert taking_part(spec("dsu", **whole), 3) == (3, 3)
    row = footprint(pooled, 3, 2).weights
    assert footprint(pooled, 3, 2) == Footprint((1 + 1 + 2) * row, row)
    adam = {"local": {"optimizer": "adam"}}  # it keeps its memory for the whole run
    kept = spec("dsu", method={"name": "dsu", "params": {"centralized": True}}, **part, **adam)
    assert footprint(kept, 3, 2).checkpoint > (1 + 1 + 2 + 1.9) * row


def test_runs_that_differ_in_seed_and_rate_share_one_model(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    build = model_of
    monkeypatch.setattr(
        "fedshift.planning.footprint.model_of", lambda run, classes: made.append(1) or build(run, classes)
    )
    for seed in range(20):
        footprint(spec("fedavg", seed=seed, local={"lr": 0.1 * (seed + 1)}), 3, 23)
    assert len(made) == 1
    footprint(spec("fedbn"), 3, 23)
    assert len(made) == 2
