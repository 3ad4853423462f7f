"""The sample of numeric tests that `make test-isa` runs: another for each commit, of the size asked for, on the instruction set asked for."""

from __future__ import annotations

import pytest

from tests.sample import chosen, pytest_report_header

TESTS = [f"tests/any.py::test_{i}" for i in range(2000)]


def test_a_sample_has_its_share_of_the_tests_and_changes_with_the_key() -> None:
    first, second = ({test for test in TESTS if chosen(test, key, 0.1)} for key in ("a", "b"))
    assert 140 < len(first) < 260 and 140 < len(second) < 260  # four deviations about 200
    assert len(first & second) < 60  # 20 by chance
    assert first == {test for test in TESTS if chosen(test, "a", 0.1)}
    assert all(chosen(test, "a", 1.0) for test in TESTS)


def test_another_instruction_set_than_asked_for_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ATEN_CPU_CAPABILITY", raising=False)
    assert pytest_report_header().startswith("torch computes by ")
    monkeypatch.setenv("ATEN_CPU_CAPABILITY", "vsx")
    with pytest.raises(pytest.UsageError, match="not by vsx"):
        pytest_report_header()
