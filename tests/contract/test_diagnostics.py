"""What every method that logs must hold: walks the registry, so that a new log is tested unasked."""

from typing import Any

import pytest

from fedshift.common.registry import get, names
from fedshift.federation.client import Client
from fedshift.federation.loop import Federation
from fedshift.federation.server import Server
from fedshift.testing.contract.methods import state_of
from fedshift.testing.toys import diagnosed, finish, method, small, spec

LOGGING = [name for name in names("methods") if get("methods", name).logs]
RUN = spec(local={"momentum": 0.9, "optimizer_state": "persist", "epochs": 2}, federation={"rounds": 3})
PART = RUN.model_copy(update={"federation": RUN.federation.model_copy(update={"participation": 0.67})})


def played(name: str, run: Any = RUN) -> Federation:
    return finish(small(run, method(name)))


@pytest.mark.parametrize("name", LOGGING)
def test_each_name_is_logged_of_those_who_took_part(name: str) -> None:
    """Or of all clients, or of none in particular."""
    federation = played(name, PART)
    found = diagnosed(federation)
    assert {told for told, _, _ in found} == {*method(name).logs}
    trained = {(row["round"], row["client"]) for row in federation.records.rows if row["stage"] == "train"}
    for logged in federation.method.logs:
        rows = {(t, k) for told, t, k in found if told == logged}
        clients = {k for _, k in rows}
        assert rows <= trained or clients == {-1} or rows == {(t, k) for t in (1, 2, 3) for k in range(3)}


@pytest.mark.parametrize("name", LOGGING)
def test_logging_changes_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    told = state_of(played(name))
    monkeypatch.setattr(Client, "log", lambda *args: None)
    monkeypatch.setattr(Server, "log", lambda *args: None)
    silent = played(name)
    assert not diagnosed(silent)
    assert told == state_of(silent)
