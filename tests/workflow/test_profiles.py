"""Every profile says how far it was tried, and docs/cluster.md agrees; tests/workflow/test_submitted.py tries them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conftest import ROOT

PROFILES = sorted(path.parent.relative_to(ROOT) for path in ROOT.glob("profiles/*/config.yaml"))
TRIED = re.compile(r"^# Tried with .*; (not on an? \w+)\.$", re.MULTILINE)
HERE = ("ci", "local")  # used by tests and by everybody


@pytest.mark.parametrize("profile", PROFILES, ids=lambda path: path.name)
def test_it_says_whether_it_was_tried_and_the_page_agrees(profile: Path) -> None:
    if profile.name in HERE:
        return
    (untried,) = TRIED.findall((ROOT / profile / "config.yaml").read_text())
    page = (ROOT / "docs" / "cluster.md").read_text()
    (row,) = re.findall(rf"^\| `{profile.as_posix()}` \|.*$", page, re.MULTILINE)
    assert "| tried with " in row and row.endswith(f"; {untried} |")
