"""Errors that a user can fix."""

import copyreg
import difflib
from collections.abc import Collection, Iterable
from typing import Any

MANY, FEW = 12, 4  # choices: above MANY, only FEW are named


class FedshiftError(Exception):
    """An error outside the code: where it is, what is wrong, and what to do next.

    `retry`: whether running the same command again can help (a full disk: yes; a misspelled key: no).
        Workflows use it.
    """

    def __init__(self, where: object, what: str, cure: str = "", *, retry: bool = False) -> None:
        self.where, self.what, self.cure, self.retry = str(where), what, cure, retry
        super().__init__(f"{self.where}: {what}" + (f"\n  {cure}" if cure else ""))

    def __reduce__(self) -> tuple[Any, ...]:
        """Support pickling between processes: `__init__` takes other arguments than `args`."""
        return copyreg.__newobj__, (type(self), *self.args), vars(self)  # type: ignore[attr-defined]


class Damaged(FedshiftError):
    """A file whose content is not what was written.

    Another machine may be able to read it, so a retry can help.
    """

    def __init__(self, where: object, what: str, cure: str = "") -> None:
        super().__init__(where, what, cure, retry=True)


def nearest(name: str, valid: Iterable[str], listing: str = "") -> str:
    """One sentence with the valid choices that begin with `name`, or else the closest one.

    If none is close, all choices are listed. If there are many, it has the first ones, or the command that
    lists them: `fedshift list <listing>`.
    """
    choices = sorted(map(str, valid))
    longer = [choice for choice in choices if name and choice.startswith(str(name))]
    close = longer[:FEW] or difflib.get_close_matches(str(name), choices, n=1, cutoff=0.5)
    every = f"There are {len(choices)}: fedshift list {listing}."
    many = len(choices) > MANY
    if close:
        return f"Did you mean {' or '.join(map(repr, close))}?" + (f" {every}" if many and listing else "")
    if many:
        some = f"Valid: {', '.join(choices[:FEW])} and {len(choices) - FEW} others."
        return every if listing else some
    return f"Valid: {', '.join(choices)}." if choices else "There is no valid choice."


def unknown(where: object, kind: str, name: str, valid: Iterable[str], listing: str = "") -> FedshiftError:
    """The error for a name that is not among `valid`; `listing`: as in `nearest`."""
    return FedshiftError(where, f"unknown {kind} '{name}'", nearest(name, valid, listing))


def check_known(where: object, kind: str, name: Any, valid: Collection[Any], listing: str = "") -> None:
    """Raise `unknown` for a name that is not among `valid`."""
    if name not in valid:
        raise unknown(where, kind, str(name), map(str, valid), listing)
