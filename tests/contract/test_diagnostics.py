"""What every method with diagnostics must hold: walks the registry, so that a new declaration is tested unasked."""

from __future__ import annotations

from typing import Any

import pytest

from fedshift.common.registry import get, names
from fedshift.federation.client import Client
from fedshift.federation.diagnostics import Diagnostic
from fedshift.federation.loop import Federation
from fedshift.federation.server import Server
from fedshift.testing.contract.state import same, state_of
from fedshift.testing.toys import diagnosed, finish, method, small, spec

RECORDING = [name for name in names("methods") if get("methods", name).diagnostics]
RUN = spec(local={"momentum": 0.9, "optimizer_state": "persist", "epochs": 2}, federation={"rounds": 3})
PART = RUN.model_copy(update={"federation": RUN.federation.model_copy(update={"participation": 0.67})})


def played(name: str, run: Any = RUN) -> Federation:
    return finish(small(run, method(name)))


def test_those_with_declarations_are_walked() -> None:
    assert {"fdse", "feddg_ga", "fedheal", "fedrd", "hfedf", "stablefdg"} <= {*RECORDING}


@pytest.mark.parametrize("name", RECORDING)
def test_each_declared_diagnostic_is_recorded_with_its_meaning(name: str) -> None:
    declared = method(name).diagnostics
    assert {told for told, _, _ in diagnosed(played(name))} == {one.name for one in declared}
    for one in declared:
        assert one.name.isidentifier()
        assert len(one.meaning) > 10
        assert "\n" not in one.meaning


def sizes(one: Diagnostic, active: int) -> int | None:
    """How many numbers stand beside one client, or beside none; None where a word counts them."""
    first = one.owner == "server" and one.shape[:1] in (("K",), ("N",))
    known = {"K": active, "N": 3}
    axes = [known.get(axis) if isinstance(axis, str) else axis for axis in one.shape[first:]]
    total = 1
    for axis in axes:
        if axis is None:
            return None
        total *= axis
    return total


@pytest.mark.parametrize("name", RECORDING)
def test_only_those_who_took_part_have_rows(name: str) -> None:
    federation = played(name, PART)
    found = diagnosed(federation)
    trained = {(row["round"], row["client"]) for row in federation.records.rows if row["stage"] == "train"}
    for one in federation.method.diagnostics:
        rows = {(t, k): values for (told, t, k), values in found.items() if told == one.name}
        if one.owner == "client":
            assert rows.keys() <= trained
        elif one.shape[:1] == ("K",):
            assert rows.keys() == trained
        else:
            assert {k for _, k in rows} == ({0, 1, 2} if one.shape[:1] == ("N",) else {-1})
        size = sizes(one, 2)
        assert all(len(values) == size for values in rows.values()) or size is None
        if one.shape[1:][-1:] == ("K",) == one.shape[:1]:  # the places of who is away stay empty
            for (t, _), values in rows.items():
                assert {index % 3 for index in values} == {k for finished, k in trained if finished == t}


@pytest.mark.parametrize("name", RECORDING)
def test_recording_changes_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    told = state_of(played(name))
    monkeypatch.setattr(Client, "record", lambda *args: None)
    monkeypatch.setattr(Server, "record", lambda *args: None)
    silent = played(name)
    assert not diagnosed(silent)
    assert same(told, state_of(silent))
