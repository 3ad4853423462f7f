"""Fixtures that every test may use."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real images and lists; without it the test is skipped, or fails under FEDSHIFT_REQUIRE_SHARED=1."""
    path = Path(os.environ.get("FEDSHIFT_SHARED", ROOT.parent / "shared"))
    if not (path / "data").is_dir():
        if os.environ.get("FEDSHIFT_REQUIRE_SHARED") == "1":
            pytest.fail(f"{path}/data does not exist, and FEDSHIFT_REQUIRE_SHARED=1")
        pytest.skip(f"{path}/data does not exist")
    return path


def vectors(name: str) -> Any:
    """Reference values from tests/vectors/<name>.json."""
    return json.loads((ROOT / "tests" / "vectors" / f"{name}.json").read_text())
