"""Our mutation operators beside those of cosmic-ray - a wrong axis, weight, sign, reduction, gradient or round, and something left out or
exchanged - and what no mutant is drawn from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from cosmic_ray.operators.operator import Example, Operator
from parso.python.tree import Name

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
# They change no number on the machine that runs the tests.
UNSEEN_KEYWORDS = {"strict", "device", "devices", "non_blocking"}
AUGMENTED = ("+=", "-=", "*=", "/=")
LABELS = {"name", "version", "title"}  # attributes of a class that name it


class Rewrite(Operator):
    """An operator given by `texts`: what may stand in the place of a node."""

    def texts(self, node: Any) -> Iterable[str]:
        raise NotImplementedError

    def mutation_positions(self, node: Any) -> Iterator[Any]:
        for _ in self.texts(node):
            yield node.start_pos, node.end_pos

    def mutate(self, node: Any, index: int) -> Any:
        text = list(self.texts(node))[index]
        return Name(text, node.start_pos, node.get_first_leaf().prefix)

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        return ()


def text(node: Any) -> str:
    return str(node.get_code(include_prefix=False))


def called(trailer: Any) -> str:
    """The name of the function or method whose argument list this trailer is."""
    before = trailer.get_previous_sibling()
    leaf = before.get_last_leaf() if before is not None and trailer.type == "trailer" else None
    return leaf.value if leaf is not None and leaf.type == "name" else ""


def is_call(node: Any) -> bool:
    return node is not None and node.type == "trailer" and node.children[0].value == "("


def arguments(trailer: Any) -> list[Any]:
    inside = trailer.children[1:-1]
    if inside and inside[0].type == "arglist":
        inside = inside[0].children
    return [child for child in inside if child.type != "operator"]


class SwappedAxis(Rewrite):
    """dim=0 for dim=1 and back, 0 for -1, in calls that reduce or join along an axis; a transpose left out."""

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

    def texts(self, node: Any) -> Iterable[str]:
        if node.type != "atom_expr":
            return
        for i, child in enumerate(node.children[:-1]):
            if text(child) in (".detach", ".clone") and text(node.children[i + 1]) == "()":
                yield "".join(text(part) for part in [*node.children[:i], *node.children[i + 2 :]])


class WrongReduction(Rewrite):
    """sum for mean, min for max, add_ for sub_, enable_grad for no_grad, and back: methods and functions of a like signature."""

    def texts(self, node: Any) -> Iterable[str]:
        if node.type == "name" and node.value in PAIRS:
            attribute = node.parent.type == "trailer" and node.parent.children[0].value == "."
            after = (node.parent if attribute else node).get_next_sibling()
            if is_call(after) and (attribute or node.value in ("max", "min", "any", "all")):
                yield PAIRS[node.value]


class UniformForWeighted(Rewrite):
    """Equal weights for p, sizes or weights in a product and in the engine's mean(rows, weights)."""

    def texts(self, node: Any) -> Iterable[str]:
        averaged = (
            called(node.parent.parent) == "mean" if node.parent and node.parent.type == "arglist" else False
        )
        multiplied = node.type == "name" and node.value in WEIGHTS and node.parent.type == "term"
        if multiplied or (averaged and node.type != "operator" and node is arguments(node.parent.parent)[-1]):
            yield f"({text(node)} * 0 + 1 / len({text(node)}))"


class SignFlip(Rewrite):
    """-= for +=, /= for *=, the negated value of a returned sum or product, of alpha= and value=, and below exp and softmax."""

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


class DroppedKeyword(Rewrite):
    """The default of a function in the place of a keyword argument of a call."""

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

    def texts(self, node: Any) -> Iterable[str]:
        if node.type == "arglist" and called(node.parent) not in ("isinstance", "getattr", "setattr"):
            one, other, *rest = arguments(node.parent)
            alike = one.type == other.type not in ("argument", "number", "string", "operator")
            if alike and text(one) != text(other):
                yield ", ".join(text(each) for each in (other, one, *rest))


class DroppedStatement(Rewrite):
    """pass for a call whose value is not used, for x += y, and for an assignment to x.y or x[y]."""

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


def aside(node: Any) -> bool:
    """Whether the code below `node` says something to a reader, a type checker or an importer alone."""
    return node.type in ("decorator", "import_name", "import_from", "raise_stmt") or any(
        rule(node, node.parent) for rule in (_annotation, _type_checking, _keyword, _label) if node.parent
    )


def _annotation(node: Any, parent: Any) -> bool:
    if parent.type == "funcdef":
        return parent.annotation is node
    return (parent.type == "annassign" and parent.children[1] is node) or (
        parent.type == "tfpdef" and parent.children[-1] is node
    )


def _type_checking(node: Any, parent: Any) -> bool:
    return node.type == "if_stmt" and node.children[1].get_code().strip() == "TYPE_CHECKING"


def _keyword(node: Any, parent: Any) -> bool:
    """strict=, device=: equal lengths and one device are all that a right run knows."""
    return node.type == "argument" and node.get_first_leaf().value in UNSEEN_KEYWORDS


def _label(node: Any, parent: Any) -> bool:
    if node.type != "expr_stmt" or parent.parent is None or parent.parent.parent is None:
        return False
    return parent.parent.parent.type == "classdef" and node.get_first_leaf().value in LABELS
