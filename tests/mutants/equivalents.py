"""Mutants that change no number that a run gives, each with the reason."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import yaml

from tests.mutants.draw import SOURCE
from tests.mutants.sites import Key

LIST = Path(__file__).parent / "equivalent.yaml"


@dataclass(frozen=True)
class Equivalent:
    """Named by the code and not by its place: file below src/fedshift, function, operator, changed lines before and after."""

    file: str
    within: str
    operator: str
    code: str
    becomes: str
    reason: str

    @property
    def key(self) -> Key:
        return (f"{SOURCE}/{self.file}", self.within, self.operator, self.code, self.becomes)


def equivalents(path: Path = LIST) -> list[Equivalent]:
    """All that are named."""
    return [Equivalent(**entry) for entry in yaml.safe_load(path.read_text()) or []]
