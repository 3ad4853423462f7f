"""What no number depends on, and no mutant is drawn from."""

from __future__ import annotations

from typing import Any

from tests.mutants.code_operators import UNSEEN_KEYWORDS

LABELS = {"name", "version", "title"}  # attributes of a class that name it


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
