"""Errors that a user can mend."""

from __future__ import annotations

import copyreg
import difflib
from collections.abc import Iterable
from typing import Any


class FedshiftError(Exception):
    """A mistake outside the code: says where it is, what it is, and what to do next.

    `retry` tells a workflow whether running the same thing again can help (a full disk: yes; a misspelled
    key: no).
    """

    def __init__(self, where: object, what: str, cure: str = "", *, retry: bool = False) -> None:
        self.where, self.what, self.cure, self.retry = str(where), what, cure, retry
        super().__init__(f"{self.where}: {what}" + (f"\n  {cure}" if cure else ""))

    def __reduce__(self) -> tuple[Any, ...]:
        """From another process it comes without `__init__`, which takes other arguments than `args`."""
        return copyreg.__newobj__, (type(self), *self.args), vars(self)  # type: ignore[attr-defined]


def nearest(name: str, valid: Iterable[str]) -> str:
    """One sentence that names the valid choice that `name` begins, else the closest to it, or all of them
    where none is close.
    """
    choices = sorted(map(str, valid))
    longer = [choice for choice in choices if name and choice.startswith(str(name))]
    close = longer or difflib.get_close_matches(str(name), choices, n=1, cutoff=0.5)
    if close:
        return f"Did you mean '{close[0]}'?"
    return f"Valid: {', '.join(choices)}." if choices else "There is no valid choice."


def unknown(where: object, kind: str, name: str, valid: Iterable[str]) -> FedshiftError:
    """The error for a name that is not among `valid`."""
    return FedshiftError(where, f"unknown {kind} '{name}'", nearest(name, valid))
