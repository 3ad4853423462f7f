"""Diagnostics: what is declared is recorded where it belongs, of those who took part, and nothing else is."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from fedshift.common.errors import FedshiftError
from fedshift.common.tensors import read_tensors
from fedshift.federation import checkpoint
from fedshift.federation.client import Client
from fedshift.federation.diagnostics import Diagnostic, Owner
from fedshift.federation.method import Method
from fedshift.federation.server import Server
from fedshift.federation.state import Message
from fedshift.testing.toys import diagnosed, finish, method, quadratics

LAYERS = 1  # of the toy network


class Recorder(Method):
    """FedAvg that records numbers which tell client and round."""

    name = "recorder"
    diagnostics = (
        Diagnostic("scalar", "ten times the client, and the round"),
        Diagnostic("pair", "the client and itself", (2,)),
        Diagnostic("all", "a number for each client", ("N",)),
        Diagnostic("layers", "a number for each layer", ("L",)),
        Diagnostic("weights", "a number for each client of the round", ("K",), "server"),
        Diagnostic("pairs", "for each two of them", ("K", "units", "K"), "server"),
        Diagnostic("states", "for each client", ("N", 2), "server"),
        Diagnostic("free", "of any length", ("length",), "server"),
    )

    def end(self, C: Client) -> None:
        wrong = torch.zeros((), dtype=torch.float64)
        C.record("scalar", wrong)
        wrong += 10 * C.k + C.t
        C.record("scalar", wrong)  # the last one counts
        C.record("pair", torch.tensor([1.0, -1.0]) * C.k)
        C.record("all", torch.arange(3.0))
        if C.k != 1:
            C.record("layers", torch.full((LAYERS,), 7.0 * C.k))

    def aggregate(self, S: Server, rows: Tensor, p: Tensor, up: Mapping[str, Tensor]) -> None:
        super().aggregate(S, rows, p, up)
        clients = torch.tensor(S.active, dtype=torch.float64)
        S.record("weights", clients)
        S.record("pairs", 100 * clients[:, None, None] + torch.tensor([0, 10])[None, :, None] + clients)
        states = torch.arange(6.0).view(3, 2)
        S.record("states", states)
        states.zero_()  # what was recorded stays
        S.record("free", torch.full((S.t + 1,), 0.5))


def played(chosen: Method, participation: float = 1.0, rounds: int = 2, **options: Any) -> Any:
    """Three clients on quadratics, each a step a round."""
    federation = {"participation": participation}
    return quadratics(chosen, [1.0] * 3, [0.0, 1.0, 2.0], 3.0, 0.1, 1, rounds, federation=federation)


def test_every_number_has_its_place() -> None:
    found = diagnosed(finish(played(Recorder(), participation=0.67)))
    taking_part = {
        t: [client for name, finished, client in found if name == "weights" and finished == t] for t in (1, 2)
    }
    assert [len(clients) for clients in taking_part.values()] == [2, 2]
    expected: dict[tuple[str, int, int], dict[int, float]] = {}
    for t, active in taking_part.items():
        for k in active:
            expected["scalar", t, k] = {0: 10 * k + t - 1}
            expected["pair", t, k] = {0: k, 1: -k}
            expected["all", t, k] = {0: 0, 1: 1, 2: 2}
            if k != 1:
                expected["layers", t, k] = {0: 7 * k}
            expected["weights", t, k] = {0: k}
            expected["pairs", t, k] = {3 * u + j: 100 * k + 10 * u + j for u in (0, 1) for j in active}
        for k in range(3):
            expected["states", t, k] = {0: 2 * k, 1: 2 * k + 1}
        expected["free", t, -1] = dict.fromkeys(range(t), 0.5)
    assert found == expected


def test_what_is_recorded_of_a_graph_leaves_the_graph() -> None:
    """A number with a derivative is kept without it: the graph of the step is freed."""
    records: list[Tensor] = []

    class Watched(Recorder):
        def end(self, C: Client) -> None:
            with torch.enable_grad():
                C.record("pair", torch.ones(2, requires_grad=True) * (C.k + 1))
            records.append(C._recorded)

    found = diagnosed(finish(played(Watched(), rounds=1)))
    assert [found["pair", 1, k] for k in range(3)] == [{0: k + 1, 1: k + 1} for k in range(3)]
    assert len(records) == 3 and not any(kept.requires_grad for kept in records)


def test_scalars_of_clients_are_metrics_too() -> None:
    rows = [row for row in finish(played(Recorder())).records.rows if row["stage"] == "diagnostic"]
    assert [(row["round"], row["client"], row["metric"], row["value"]) for row in rows] == [
        (t, k, "scalar", 10 * k + t - 1) for t in (1, 2) for k in range(3)
    ]


def test_where_clients_come_one_after_the_other_each_has_its_row() -> None:
    class Sequential(Recorder):
        sequential = True

    found = diagnosed(finish(played(Sequential(), rounds=1)))
    assert {client: values for (name, _, client), values in found.items() if name == "weights"} == {
        k: {0: k} for k in range(3)
    }
    assert {client: values for (name, _, client), values in found.items() if name == "pairs"} == {
        k: {3 * u + k: 101 * k + 10 * u for u in (0, 1)} for k in range(3)
    }
    assert [values for (name, _, _), values in found.items() if name == "free"] == [{0: 0.5}]  # the last


@pytest.mark.parametrize("begins", ["active", "all"])
def test_what_is_recorded_before_an_exchange_is_kept(begins: Any) -> None:
    """Of those who take part."""

    class Early(Method):
        name = "early"
        messages = (Message("k"),)
        diagnostics = (
            Diagnostic("first", "the client, in `begin`"),
            Diagnostic("together", "all of them", ("beginners",), "server"),
        )

        def begin(self, C: Client) -> Mapping[str, Tensor]:
            C.record("first", torch.tensor(float(C.k)))
            return {"k": torch.tensor(float(C.k))}

        def exchanges(self, t: int) -> bool:
            return True

        def exchange(self, S: Server, up: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
            S.record("together", up["k"])
            return {}

    Early.begins = begins
    whole = diagnosed(finish(played(Early(), participation=0.67, rounds=1)))
    clients = {client for name, _, client in whole if name == "first"}
    assert len(clients) == 2
    assert all(whole["first", 1, k] == {0: k} for k in clients)
    beginners = range(3) if begins == "all" else sorted(clients)
    assert whole["together", 1, -1] == dict(enumerate(beginners))


def at_client(C: Client) -> None:
    """Records what is no client's."""
    C.record("weights", torch.zeros(3))


def misspelt(S: Server) -> None:
    S.record("weight", torch.zeros(3))


def too_long(S: Server) -> None:
    S.record("weights", torch.zeros(4))


def too_flat(S: Server) -> None:
    S.record("pairs", torch.zeros(3, 3))


def not_all(C: Client) -> None:
    C.record("all", torch.zeros(2))


@pytest.mark.parametrize(
    ("hook", "told"),
    [
        (
            at_client,
            "records 'weights', which it does not declare for the client\n  Valid: all, layers, pair, scalar.",
        ),
        (misspelt, "records 'weight', which it does not declare for the server\n  Did you mean 'weights'?"),
        (too_long, r"records 'weights' of shape \(4,\), declared as \('K',\)\n  .*'K': 3"),
        (too_flat, r"records 'pairs' of shape \(3, 3\), declared as \('K', 'units', 'K'\)"),
        (not_all, r"records 'all' of shape \(2,\), declared as \('N',\)\n  .*'N': 3"),
    ],
)
def test_what_is_not_declared_is_refused_by_name(
    hook: Any, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "C" in hook.__annotations__:
        monkeypatch.setattr(Recorder, "end", lambda self, C: hook(C))
    else:
        monkeypatch.setattr(Recorder, "aggregate", lambda self, S, rows, p, up: hook(S))
    with pytest.raises(FedshiftError, match=f"method recorder: {told}"):
        finish(played(Recorder(), rounds=1))


@pytest.mark.parametrize("axis", ["K", "units"])
def test_a_clients_diagnostic_of_unknown_size_is_refused(axis: str) -> None:
    chosen = Recorder()
    chosen.diagnostics = (Diagnostic("odd", "of unknown size", (2, axis)),)
    with pytest.raises(FedshiftError, match=rf"declares 'odd' for the client with shape \(2, '{axis}'\)"):
        played(chosen)


@pytest.mark.parametrize("owner", ["client", "server"])
def test_two_of_one_name_are_refused(owner: Owner) -> None:
    chosen = Recorder()
    chosen.diagnostics = (Diagnostic("twice", "one"), Diagnostic("twice", "another", (), owner))
    with pytest.raises(FedshiftError, match="declares the diagnostic 'twice' twice"):
        played(chosen)


def test_what_diverged_is_recorded_of_the_server_alone() -> None:
    """NaN means nothing for a client, whose numbers start from it."""

    class Diverged(Recorder):
        def end(self, C: Client) -> None:
            C.record("pair", torch.full((2,), math.nan))
            C.record("all", torch.tensor([math.nan, 1.0, math.inf]))

        def aggregate(self, S: Server, rows: Tensor, p: Tensor, up: Mapping[str, Tensor]) -> None:
            S.record("weights", torch.full((3,), math.nan))

    found = diagnosed(finish(played(Diverged(), rounds=1)))
    assert {name for name, _, _ in found} == {"all", "weights"}
    assert math.isnan(found["weights", 1, 2][0])
    assert math.isnan(found["all", 1, 2][0])
    assert found["all", 1, 2][2] == math.inf


def test_who_records_nothing_pays_nothing(tmp_path: Path) -> None:
    """No number beside the two of every client, no tensor in the checkpoint, no file."""
    federation = played(method("fedavg"))
    assert federation.diagnostics.width == 0
    checkpoint.save(finish(federation), tmp_path / "c.safetensors", tmp_path / "segments", "run")
    tensors, _ = read_tensors(tmp_path / "c.safetensors", "")
    assert not [name for name in tensors if "diagnostic" in name]
    assert {path.name for path in (tmp_path / "segments").iterdir() if path.is_dir()} == {"statistics"}
