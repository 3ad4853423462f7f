"""The base of our mutation operators, and how calls lie in parso's tree."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from cosmic_ray.operators.operator import Example, Operator
from parso.python.tree import Name


class Rewrite(Operator):
    """An operator given by `texts`: what may stand in the place of a node."""

    shown: tuple[str, str]

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
        return (Example(*cls.shown),)


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
