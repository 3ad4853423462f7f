"""Which test files belong to a method."""

from __future__ import annotations

from pathlib import Path

from fedshift.registry import own

HERE = Path(__file__).parent


def files_of(method: str) -> list[Path]:
    """test_<method>.py and test_<method>_<subject>.py; a file belongs to the longest method name that begins its own."""
    return [file for file in sorted(HERE.glob("test_*.py")) if _owner(file) == method]


def _owner(file: Path) -> str:
    names = (name for name in own("methods") if f"{file.stem}_".startswith(f"test_{name}_"))
    return max(names, key=len, default="")
