"""Mutation operators for tensor code, beside those of cosmic-ray: a wrong axis, weight, sign, reduction, gradient or round."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tests.mutants.rewrite import Rewrite, arguments, called, is_call, text

AXIS_CALLS = {
    "all", "amax", "amin", "any", "argmax", "argmin", "cat", "chunk", "cumsum", "flatten", "gather", "index_select",
    "log_softmax", "logsumexp", "max", "mean", "min", "norm", "normalize", "prod", "select", "softmax", "sort", "split",
    "squeeze", "stack", "std", "sum", "topk", "unbind", "unsqueeze", "var",
}  # fmt: skip
PAIRS = {
    "mean": "sum", "max": "min", "amax": "amin", "argmax": "argmin", "var": "std", "any": "all", "add_": "sub_",
    "mul_": "div_", "add": "sub", "mul": "div", "no_grad": "enable_grad", "cumsum": "cumprod",
}  # fmt: skip
PAIRS |= {other: one for one, other in PAIRS.items()}
ASSIGNMENTS = {"+=": "-=", "-=": "+=", "*=": "/=", "/=": "*="}
NEGATED_CALLS = {"exp", "softmax", "sigmoid", "log_softmax"}
NEGATED_KEYWORDS = {"alpha", "value", "weight"}
WEIGHTS = {"p", "weights", "sizes", "counts"}
ROUNDS = {"t", "finished", "round"}


class SwappedAxis(Rewrite):
    """dim=0 for dim=1 and back, 0 for -1, in calls that reduce or join along an axis; a transpose left out."""

    shown = ("x.sum(0)", "x.sum(1)")

    def texts(self, node: Any) -> Iterable[str]:
        if text(node) in ("0", "1", "-1") and node.type in ("number", "factor") and self._is_axis(node):
            yield "1" if text(node) == "0" else "0"
        if (
            node.type == "atom_expr"
            and node.children[-1].type == "trailer"
            and text(node.children[-1]) == ".T"
        ):
            yield "".join(text(child) for child in node.children[:-1])

    def _is_axis(self, node: Any) -> bool:
        parent = node.parent
        if parent.type == "argument":
            return parent.children[0].type == "name" and parent.children[0].value in ("dim", "axis")
        trailer = parent if parent.type == "trailer" else parent.parent
        return is_call(trailer) and called(trailer) in AXIS_CALLS and node in arguments(trailer)


class DroppedCall(Rewrite):
    """x for x.detach() and for x.clone()."""

    shown = ("y = x.detach() * 2", "y = x * 2")

    def texts(self, node: Any) -> Iterable[str]:
        if node.type != "atom_expr":
            return
        for i, child in enumerate(node.children[:-1]):
            if text(child) in (".detach", ".clone") and text(node.children[i + 1]) == "()":
                yield "".join(text(part) for part in [*node.children[:i], *node.children[i + 2 :]])


class WrongReduction(Rewrite):
    """sum for mean, min for max, add_ for sub_, enable_grad for no_grad, and back: methods and functions of a like signature."""

    shown = ("x.mean(0)", "x.sum(0)")

    def texts(self, node: Any) -> Iterable[str]:
        if node.type == "name" and node.value in PAIRS:
            attribute = node.parent.type == "trailer" and node.parent.children[0].value == "."
            after = (node.parent if attribute else node).get_next_sibling()
            if is_call(after) and (attribute or node.value in ("max", "min", "any", "all")):
                yield PAIRS[node.value]


class UniformForWeighted(Rewrite):
    """Equal weights for p, sizes or weights in a product and in the engine's mean(rows, weights)."""

    shown = ("mean(rows, p)", "mean(rows, (p * 0 + 1 / len(p)))")

    def texts(self, node: Any) -> Iterable[str]:
        averaged = (
            called(node.parent.parent) == "mean" if node.parent and node.parent.type == "arglist" else False
        )
        multiplied = node.type == "name" and node.value in WEIGHTS and node.parent.type == "term"
        if multiplied or (averaged and node.type != "operator" and node is arguments(node.parent.parent)[-1]):
            yield f"({text(node)} * 0 + 1 / len({text(node)}))"


class SignFlip(Rewrite):
    """-= for +=, /= for *=, the negated value of a returned sum or product, of alpha= and value=, and below exp and softmax."""

    shown = ("x += y", "x -= y")

    def texts(self, node: Any) -> Iterable[str]:
        if node.type == "operator" and node.value in ASSIGNMENTS:
            yield ASSIGNMENTS[node.value]
        parent = node.parent
        if parent is None:
            return
        returned = parent.type == "return_stmt" and node.type in ("arith_expr", "term")
        keyword = (
            parent.type == "argument" and parent.children[0].type == "name" and node is parent.children[-1]
        )
        named = keyword and parent.children[0].value in NEGATED_KEYWORDS
        trailer = parent.parent if parent.type == "arglist" else parent
        below = (
            is_call(trailer) and called(trailer) in NEGATED_CALLS and node is [*arguments(trailer), None][0]
        )
        if node.type != "number" and (returned or named or below):  # .softmax(1): an axis
            yield f"-({text(node)})"


class OffByOneRound(Rewrite):
    """The round before or after: t, finished, .t, .round."""

    shown = ("if C.t > 1: pass", "if (C.t + 1) > 1: pass")

    def texts(self, node: Any) -> Iterable[str]:
        if node.type == "name" and node.value in ("t", "finished"):
            keyword = node.parent.type == "argument" and node is node.parent.children[0]
            read = not (
                node.is_definition() or keyword or node.parent.type in ("trailer", "param", "atom_expr")
            )
        else:
            attribute = node.type == "atom_expr" and node.children[-1].type == "trailer"
            attribute = attribute and text(node.children[-1]) in (".t", ".round")
            read = attribute and not (node.parent.type == "expr_stmt" and node is node.parent.children[0])
        if read:
            yield from (f"({text(node)} + 1)", f"({text(node)} - 1)")


TENSOR = (SwappedAxis, DroppedCall, WrongReduction, UniformForWeighted, SignFlip, OffByOneRound)
