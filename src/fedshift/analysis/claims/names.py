"""Comparisons in words: what statements and lines call their sides."""

from __future__ import annotations

from fedshift.analysis.claims.comparison import Cell, Comparison, Sum
from fedshift.analysis.layout.grid import PLAIN
from fedshift.experiments.schema import SELECTED


def statement(comparison: Comparison, home: str) -> str:
    """A claim in a line, "hfedf > each of 5, ood, d 1"; home: the experiment that tests it, which goes
    without saying.
    """
    shared = _Shared(comparison, home)
    left, right = (list(dict.fromkeys(map(shared.side, of))) for of in zip(*comparison.pairs, strict=True))
    several = "the best of" if comparison.one_is_enough else "each of"
    sides = [
        of[0] if len(of) == 1 else f"{word} {len(of)}" for of, word in ((left, "each of"), (right, several))
    ]
    return ", ".join([f"{sides[0]} {comparison.relation} {sides[1]}", *shared.words])


def pair_names(comparison: Comparison, home: str) -> list[str]:
    """What each pair is called: its right side, and its left where there are several."""
    sides = side_names(comparison, home)
    several = len({left for left, _ in sides}) > 1
    return [f"{left} and {right}" if several else right for left, right in sides]


def side_names(comparison: Comparison, home: str) -> list[tuple[str, str]]:
    """What both sides of each pair are called."""
    shared = _Shared(comparison, home)
    return [(shared.side(left), shared.side(right)) for left, right in comparison.pairs]


class _Shared:
    """What all cells of a comparison have in common, and how what is left calls them."""

    def __init__(self, comparison: Comparison, home: str) -> None:
        cells = comparison.cells
        first = cells[0]
        self.home = home
        self.where = {
            axis: value
            for axis, value in first.where.items()
            if all(cell.where.get(axis) == value for cell in cells)
        }
        self.metric = first.metric if len({cell.metric for cell in cells}) == 1 else ""
        self.rounds = first.rounds if len({cell.rounds for cell in cells}) == 1 else ""
        values = [_value(axis, value) for axis, value in self.where.items()]
        rounds = [self.rounds] if self.rounds not in ("", SELECTED) else []
        self.words = [*filter(None, [self.metric]), *values, *rounds]

    def side(self, side: Sum) -> str:
        parts = [
            ("- " if factor < 0 else "+ " if place else "") + self._cell(cell)
            for place, (factor, cell) in enumerate(side.terms)
        ]
        return " ".join(parts) or f"{side.constant:g}"

    def _cell(self, cell: Cell) -> str:
        own = [_value(axis, value) for axis, value in cell.where.items() if axis not in self.where]
        own += [] if self.metric else [cell.metric]
        own += [] if self.rounds else [cell.rounds]
        own += [] if cell.experiment == self.home else [cell.experiment]
        word = "range of " * bool(cell.range) + "peak of " * bool(cell.peak)
        row = word + ", ".join([cell.row, *cell.range, *cell.peak])
        return f"{row} ({', '.join(own)})" if own else row


def _value(axis: str, value: object) -> str:
    """A value with its axis, where it does not speak for itself."""
    return str(value) if axis in PLAIN else f"{axis.rpartition('.')[2]} {value}"
