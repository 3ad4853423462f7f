"""Mutation operators for any code that cosmic-ray has none for: something left out or exchanged."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tests.mutants.rewrite import Rewrite, arguments, called, is_call, text

UNSEEN_KEYWORDS = {
    "strict",
    "device",
    "devices",
    "non_blocking",
}  # change no number on the machine that runs the tests
AUGMENTED = ("+=", "-=", "*=", "/=")


class DroppedKeyword(Rewrite):
    """The default of a function in the place of a keyword argument of a call."""

    shown = ("f(x, dim=1)", "f(x)")

    def texts(self, node: Any) -> Iterable[str]:
        if not is_call(node) or called(node) == "super":
            return
        given = arguments(node)
        for one in given:
            keyword = one.type == "argument" and one.children[0].type == "name" and len(one.children) == 3
            if (
                keyword
                and one.children[0].value not in UNSEEN_KEYWORDS
                and one.children[1].type == "operator"
            ):
                yield f"({', '.join(text(other) for other in given if other is not one)})"


class SwappedArguments(Rewrite):
    """f(b, a) for f(a, b), where both are names, or both calls or attributes, or both sums.. (others are errors of type)."""

    shown = ("f(a, b, c)", "f(b, a, c)")

    def texts(self, node: Any) -> Iterable[str]:
        if node.type == "arglist" and called(node.parent) not in ("isinstance", "getattr", "setattr"):
            one, other, *rest = arguments(node.parent)
            alike = one.type == other.type not in ("argument", "number", "string", "operator")
            if alike and text(one) != text(other):
                yield ", ".join(text(each) for each in (other, one, *rest))


class DroppedStatement(Rewrite):
    """pass for a call whose value is not used, for x += y, and for an assignment to x.y or x[y]."""

    shown = ("x[0] = 1\n", "pass\n")

    def texts(self, node: Any) -> Iterable[str]:
        if node.parent is None or node.parent.type != "simple_stmt":
            return
        call = node.type == "atom_expr" and is_call(node.children[-1])
        stored = (
            node.type == "expr_stmt"
            and node.children[0].type == "atom_expr"
            and node.children[1].type != "annassign"
        )
        augmented = node.type == "expr_stmt" and text(node.children[1]) in AUGMENTED
        if call or stored or augmented:
            yield "pass"


CODE = (DroppedKeyword, SwappedArguments, DroppedStatement)
