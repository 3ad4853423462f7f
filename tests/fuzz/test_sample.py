"""A few cases of each kind, the same each time; what longer runs found, again. `make fuzz` plays 10,000."""

import json
from pathlib import Path

import pytest

from tests.fuzz.campaign import FOUND, finding, fuzz
from tests.fuzz.plays import PLAYS, Ground

COUNTS = {"experiment": 30, "protocol": 15, "params": 80, "cluster": 80, "tree": 6, "archive": 60, "partition": 30}  # fmt: skip


@pytest.mark.parametrize("kind", sorted(PLAYS))
def test_drawn_cases_are_accepted_or_refused(kind: str, tmp_path: Path) -> None:
    played = fuzz(kind, COUNTS[kind], 1, tmp_path)
    assert not played.findings
    assert played.outcomes.total() >= COUNTS[kind] // 2
    assert played.outcomes["refused"]


@pytest.mark.parametrize("path", sorted(FOUND.glob("*.json")), ids=lambda path: path.stem)
def test_what_was_found_is_mended(path: Path, tmp_path: Path) -> None:
    found, ground = json.loads(path.read_text()), Ground(tmp_path)
    outcome, reason = finding(found["kind"], ground, found["case"])
    assert outcome != "found", reason
