"""Mark the functions that are equations of a paper, so that they can be listed and tested by number."""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])


class Equation(NamedTuple):
    """The equation that a function computes.

    `paper`, `number`: where it is from.
    `used_with`: parameters under which a run calls it.
    """

    paper: str
    number: str
    used_with: dict[str, Any]


def equation(paper: str, number: str, **used_with: Any) -> Callable[[Function], Function]:
    """Mark a function of plain tensors as equation `number` of `paper`: @equation("FDSE", "Eq. 8")."""

    def mark(function: Function) -> Function:
        function.equation = Equation(paper, number, used_with)  # type: ignore[attr-defined]
        return function

    return mark
