"""Benchmarks are scripts, whose folder is the first in which Python looks for modules."""

from __future__ import annotations

import sys

from tests.conftest import ROOT


def test_none_hides_a_module_of_pythons() -> None:
    names = {path.stem for path in (ROOT / "benchmarks").glob("*.py")}
    assert len(names) > 5 and not names & sys.stdlib_module_names
