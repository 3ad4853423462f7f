"""All places of a file where a mutation operator can act, and what it makes of them."""

import ast
import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from typing import Any

import parso
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator

from tests.mutants.operators import CODE, TENSOR, aside

SCOPE = (
    "methods",
    "models",
    "federation",
    "evaluations",
    "analysis/quantities.py",
    "analysis/claims/judge.py",
    "analysis/cells.py",
    "analysis/verdicts.py",
)
ARITHMETIC = ("Add", "Sub", "Mul", "Div", "FloorDiv", "Mod", "Pow")
BITS = ("BitOr", "BitAnd", "BitXor")
ORDER = ("Eq", "NotEq", "Lt", "LtE", "Gt", "GtE")
CORE = [
    *(f"ReplaceBinaryOperator_{a}_{b}" for kind in (ARITHMETIC, BITS) for a, b in permutations(kind, 2)),
    *(
        f"ReplaceComparisonOperator_{a}_{b}"
        for kind in (ORDER, ("Is", "IsNot"))
        for a, b in permutations(kind, 2)
    ),
    *(f"ReplaceUnaryOperator_Delete_{name}" for name in ("USub", "Invert", "Not")),
    *("AddNot", "ReplaceTrueWithFalse", "ReplaceFalseWithTrue", "ReplaceAndWithOr", "ReplaceOrWithAnd"),
    *("ReplaceBreakWithContinue", "ReplaceContinueWithBreak", "NumberReplacer", "ZeroIterationForLoop"),
]
OPERATORS: dict[str, Any] = {name: get_operator(f"core/{name}")() for name in CORE}
OPERATORS |= {one.__name__: one() for one in (*TENSOR, *CODE)}
Key = tuple[str, str, str, str, str]  # file, function, operator, changed lines before and after


@dataclass(frozen=True)
class Mutant:
    """One change of one file, of the checkout `file`: the occurrence of an operator; lines: what runs when the changed code runs."""

    file: str
    operator: str
    occurrence: int
    lines: range
    within: str

    def code(self, text: str) -> str | None:
        """The file's text with the change; None where it does not parse, or means the same to Python."""
        changed = mutate_code(text, OPERATORS[self.operator], self.occurrence)
        try:
            same = changed is None or ast.dump(ast.parse(changed)) == ast.dump(ast.parse(text))
        except SyntaxError:
            return None
        return None if same else changed


@dataclass(frozen=True)
class Site:
    """One place and kind of change: `variants` are what the operators of one family can make of it."""

    family: str
    variants: tuple[Mutant, ...]


def files(root: Path) -> list[str]:
    """What is mutated, sorted, seen from `root`."""
    places = [root / "src" / "fedshift" / place for place in SCOPE]
    found = [
        path for place in places for path in (sorted(place.rglob("*.py")) if place.is_dir() else [place])
    ]
    return [path.relative_to(root).as_posix() for path in found]


def sites(file: str, text: str) -> list[Site]:
    """The sites of one file in the order of its code."""
    counts: Counter[str] = Counter()
    at: defaultdict[tuple[Any, str], list[Mutant]] = defaultdict(list)

    def walk(node: Any, skipped: bool) -> None:
        skipped = skipped or aside(node)
        for name, operator in OPERATORS.items():
            for position in operator.mutation_positions(node):
                if not skipped:
                    one = Mutant(file, name, counts[name], _lines(node), _within(node))
                    at[position[0], name.split("_")[0]].append(one)
                counts[name] += 1
        for child in getattr(node, "children", ()):
            walk(child, skipped)

    walk(parso.parse(text), False)
    return [Site(family, tuple(variants)) for (_, family), variants in sorted(at.items())]


def difference(before: str, after: str) -> tuple[str, str]:
    """The changed lines, stripped and joined: of the code as it is, and of the mutant."""
    old, new = before.splitlines(), after.splitlines()
    start = next(i for i, (one, other) in enumerate(zip(old, new, strict=False)) if one != other)
    end = next(i for i, (one, other) in enumerate(zip(old[::-1], new[::-1], strict=False)) if one != other)
    return tuple(_joined(lines[start : max(len(lines) - end, start + 1)]) for lines in (old, new))  # type: ignore[return-value]


def _joined(lines: list[str]) -> str:
    return re.sub(r"\s+", " ", " ".join(lines)).strip()


def _within(node: Any) -> str:
    names = []
    while node is not None:
        if node.type in ("funcdef", "classdef"):
            names.append(node.name.value)
        node = node.parent
    return ".".join(reversed(names))


def _lines(node: Any) -> range:
    """The statement's lines; for what runs at import the function's whose default it is, else all of the file."""
    statement = node
    while statement.type not in ("simple_stmt", "suite", "funcdef", "file_input"):
        statement = statement.parent
    owner = statement
    while owner.type not in ("funcdef", "file_input"):
        owner = owner.parent
    if owner.type == "funcdef" and statement is not owner:
        return _range(statement if statement.type == "simple_stmt" else _header(node, statement))
    return _range(owner)


def _range(node: Any) -> range:
    return range(node.start_pos[0], node.get_last_leaf().start_pos[0] + 1)


def _header(node: Any, suite: Any) -> Any:
    """The part of a compound statement directly below `suite` that `node` lies in: a condition, an iterable, a context."""
    part = node
    while part.parent is not suite and part.parent.parent is not suite:
        part = part.parent
    return part if part.parent is not suite else node
