"""Which test files and reference vectors belong to a method."""

import re
from pathlib import Path

from fedshift.common.registry import own

HERE = Path(__file__).parent


def files_of(method: str) -> list[Path]:
    """test_<method>.py and test_<method>_<subject>.py; a file belongs to the longest method name that begins its own."""
    return [file for file in sorted(HERE.glob("test_*.py")) if _owner(file.stem[len("test_") :]) == method]


def vectors_of(method: str) -> list[str]:
    """Files of tests/vectors that the method's own tests read, and those that any test reads and whose names begin with its name."""
    own_files = files_of(method)
    return sorted(
        {
            vector
            for file in HERE.parent.rglob("test_*.py")
            for vector in re.findall(r'Reference\("([^"]+)"\)', file.read_text())
            if file in own_files or _owner(Path(vector).stem) == method
        }
    )


def _owner(stem: str) -> str:
    names = (name for name in own("methods") if f"{stem}_".startswith(f"{name}_"))
    return max(names, key=len, default="")
