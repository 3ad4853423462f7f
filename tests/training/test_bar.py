"""The bar over a run's rounds moves inside the round, and leaves the run alone."""

from __future__ import annotations

import io
from typing import Any

import pytest
import torch

from fedshift.testing.toys import finish, method, small, spec
from fedshift.training import bar
from fedshift.training.bar import Reached, accuracies, watched

SPEC = spec(federation={"rounds": 3}, local={"epochs": 2})


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("name", ["fedavg", "ditto", "fediir"])
def test_it_only_grows_and_ends_at_the_last_round(name: str) -> None:
    """ditto goes through the network twice; in fediir all clients begin before the first trains."""
    federation = small(SPEC, method(name))
    reached, seen, train = Reached(federation), [0.0], federation._train

    def looked_at(*args: Any) -> Any:
        seen.append(reached.rounds)
        messages = train(*args)
        seen.append(reached.rounds)  # between a client's training and its event
        return messages

    federation._train = looked_at  # type: ignore[method-assign]
    for event in federation.run():
        reached.note(event)
        seen.append(reached.rounds)
    assert seen == sorted(seen) and seen[-1] == 3.0
    clients = len(federation.clients)
    inside = [value for value in seen if value % 1]
    assert len({*inside}) >= 3 * (clients - 1)
    assert reached.accuracies == ", ".join(
        f"{name} {100 * value:.1f}" for name, value in accuracies(federation).items()
    )


def test_a_run_that_is_watched_is_the_same_run(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setattr(bar, "POLL_SECONDS", 0.001)
    federation = small(SPEC, method("fedavg"))
    for _ in watched(federation, federation.run()):
        pass
    drawn = terminal.getvalue()
    assert "of 3" in drawn and "left" in drawn
    plain = finish(small(SPEC, method("fedavg")))
    assert federation.server.row.view(torch.int32).equal(plain.server.row.view(torch.int32))


def test_without_a_terminal_nothing_is_drawn(capsys: pytest.CaptureFixture[str]) -> None:
    federation = small(SPEC, method("fedavg"))
    assert [*watched(federation, federation.run())].count("round") == 3
    assert capsys.readouterr().err == ""
