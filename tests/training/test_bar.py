"""The bar over a run's rounds moves with each client, and leaves the run alone."""

from __future__ import annotations

import io

import pytest
import torch

from fedshift.testing.toys import finish, method, small, spec
from fedshift.training.run import progress

SPEC = spec(federation={"rounds": 3}, local={"epochs": 2})


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_run_that_is_watched_is_the_same_run(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    federation = small(SPEC, method("fedavg"))
    with progress(federation, shown=True):
        finish(federation)
    drawn = terminal.getvalue()
    assert "round 3 of 3" in drawn and "remaining" in drawn and "out" in drawn
    plain = finish(small(SPEC, method("fedavg")))
    assert federation.server.row.view(torch.int32).equal(plain.server.row.view(torch.int32))


@pytest.mark.parametrize("shown", [False, True])
def test_without_a_terminal_nothing_is_drawn(shown: bool, capsys: pytest.CaptureFixture[str]) -> None:
    federation = small(SPEC, method("fedavg"))
    with progress(federation, shown):
        finish(federation)
    assert capsys.readouterr().err == ""
