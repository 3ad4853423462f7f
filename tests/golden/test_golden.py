"""Nothing that was measured is lost: `python -m tests.golden` writes these files anew."""

from pathlib import Path

import pytest

from fedshift.common.registry import names
from tests.golden import archive, engine, plan

GOLDEN = engine.golden()
BITS = GOLDEN["bits"].get(engine.machine())


@pytest.mark.parametrize("method", names("methods"))
def test_a_method_trains_what_it_trained(method: str) -> None:
    """Bit for bit on a class of machine that has trained it before, within the distance of instruction sets on others."""
    cases = [case for case in engine.cases() if case.method == method]
    results = {case: engine.result(case) for case in cases}
    far = [
        line
        for case in cases
        for line in engine.distances(case, results[case].numbers, GOLDEN["numbers"][str(case)])
    ]
    assert not far, "\n".join(far)
    if BITS is not None:
        assert [str(case) for case in cases if results[case].bits != BITS[str(case)]] == []


def test_every_case_is_golden() -> None:
    every = {str(case) for case in engine.cases()}
    assert {*GOLDEN["numbers"]} == every and all({*bits} == every for bits in GOLDEN["bits"].values())


def test_the_papers_have_the_same_runs() -> None:
    assert plan.papers() == plan.FILE.read_text().split()


@pytest.mark.slow
def test_the_archive_says_what_it_said(tmp_path: Path) -> None:
    made, golden = archive.made_anew(tmp_path), archive.golden()
    assert {file for file in {*made, *golden} if made.get(file) != golden.get(file)} == set()


def test_kept_results_are_what_the_archive_says() -> None:
    assert [*archive.stale()] == []
