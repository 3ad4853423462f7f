"""The finding of a check."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

State = Literal["ok", "absent", "wrong"]


@dataclass(frozen=True)
class Finding:
    """One line of the examination.

    Attributes:
        part: what is looked at.
        state: "ok" (there), "absent" (not there, not needed) or "wrong" (broken, or needed and not there).
        text: the state in words.
        cure: what to do about it.
    """

    part: str
    state: State
    text: str
    cure: str = ""


def words(path: str) -> list[str]:
    """The words of a file; none where there is none."""
    file = Path(path)
    return file.read_text(encoding="utf-8").split() if file.is_file() else []
