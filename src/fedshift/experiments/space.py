"""Search spaces: the values of a setting that a search may try, and how many points of a space it tries."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import Field, model_validator

from fedshift.common.errors import FedshiftError
from fedshift.common.files import canonical_json
from fedshift.spec import Closed

LONGEST = 100_000  # draws, before a search gives up to find another point
DIGITS = 2  # significant digits of a value that is drawn from a range: short to read, and the same everywhere
Point = dict[str, Any]  # dotted key -> value


class Space(Closed):
    """The values that a search tries of one setting: a list, or a range from which it draws."""

    values: list[Any] = Field([], description="The values; `[0.1, 0.01]` alone is short for this.")
    low: float | None = Field(None, description="The least value of a range.")
    high: float | None = Field(None, description="The largest value of a range.")
    scale: str = Field("log", pattern="^(log|linear)$", description="Whether a range is even in logarithms.")
    guess: str = Field("", description="Why these, where no paper prints the values that it searched.")

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: Any) -> Any:
        return {"values": value} if isinstance(value, list) else value

    @model_validator(mode="after")
    def _whole(self) -> Space:
        ends = [end for end in (self.low, self.high) if end is not None]
        if bool(self.values) == bool(ends) or len(ends) == 1:
            raise ValueError("a search needs `values`, or `low` and `high`, and not both")
        if ends and (ends[0] >= ends[1] or (self.scale == "log" and ends[0] <= 0)):
            raise ValueError("`low` must be below `high`, and above 0 where the scale is log")
        return self

    def __contains__(self, value: object) -> bool:
        """Whether a search could have tried the value."""
        if self.low is None or self.high is None:
            return value in self.values
        return isinstance(value, int | float) and self.low <= value <= self.high

    def at(self, number: float) -> Any:
        """The value at a number in [0, 1): of a range rounded to DIGITS significant digits."""
        if self.low is None or self.high is None:
            return self.values[math.floor(number * len(self.values))]
        if self.scale == "log":
            value = self.low * (self.high / self.low) ** number
        else:
            value = self.low + number * (self.high - self.low)
        return float(f"{value:.{DIGITS}g}")

    def __str__(self) -> str:
        if self.values:
            return "[" + ", ".join(map(str, self.values)) + "]"
        return f"{self.low} to {self.high} ({self.scale})"


Spaces = Mapping[str, Space]


def points(spaces: Spaces, budget: int | None, draw: int, where: str) -> list[Point]:
    """The points of a space that are tried: all of them (budget None), or the first `budget` different ones
    of a scrambled Halton sequence, which covers a space evenly at any length.

    `draw` seeds the scrambling. A larger budget begins with the points of a smaller one, whose runs are then
    there already, and equal spaces get equal points. Raises FedshiftError at `where` for fewer points than
    the budget asks for, and for a range where all points are asked for.
    """
    finite = math.prod(len(space.values) for space in spaces.values() if space.values)
    ranges = [key for key, space in spaces.items() if not space.values]
    if budget is None:
        if ranges:
            what = f"a grid has no range, and '{ranges[0]}' is searched in one"
            raise FedshiftError(where, what, "List its values, or give a budget.")
        grid = itertools.product(*(space.values for space in spaces.values()))
        return [dict(zip(spaces, values, strict=True)) for values in grid]
    if not ranges and finite < budget:
        searched = ", ".join(spaces) or "no setting"
        what = f"has {finite} points to search ({searched}), and the budget is {budget}"
        cure = (
            "Every row gets the same budget: lower it, or give the row more values or a range (tune.space)."
        )
        raise FedshiftError(where, what, cure)
    found: dict[str, Point] = {}
    for point in itertools.islice(_sequence(spaces, draw), LONGEST):
        found.setdefault(canonical_json(point), point)
        if len(found) == budget:
            return [*found.values()]
    what = f"{LONGEST} draws met {len(found)} different points, and the budget is {budget}"
    raise FedshiftError(where, what, "Widen a range, or lower the budget.")


def _sequence(spaces: Spaces, draw: int) -> Iterator[Point]:
    """Points without end, with repetitions where lists are short."""
    import numpy as np
    from scipy.stats import qmc

    sequence = qmc.Halton(len(spaces), rng=np.random.default_rng(draw)) if spaces else None
    while sequence:
        for numbers in sequence.random(64).tolist():
            pairs = zip(spaces.items(), numbers, strict=True)
            yield {key: space.at(number) for (key, space), number in pairs}
    yield {}
