"""Parameters of methods, networks, schemes, modifiers and evaluations: their `Params`, as JSON schemas with
a description for each.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from typing import Any

from pydantic import TypeAdapter

from fedshift.common.registry import get, own

KINDS = ("methods", "models", "partitions", "modifiers", "evaluations")


def parameters(kind: str) -> dict[str, dict[str, Any]]:
    """Name -> the JSON schema of its parameters, of all of a kind that come with fedshift."""
    return {name: _schema(get(kind, name).Params) for name in own(kind)}


def _schema(params: type) -> dict[str, Any]:
    schema = TypeAdapter(params).json_schema()
    meanings = _meanings(params)
    for name, inner in schema.get("properties", {}).items():
        inner.setdefault("description", meanings.get(name, ""))
    return {**schema, "additionalProperties": False}


def _meanings(params: type) -> dict[str, str]:
    """What the docstrings say of each parameter: `name, name: meaning; name: meaning.`, else the clause that
    has `name` in backticks.
    """
    names = [field.name for field in dataclasses.fields(params)]
    parts = [base for base in params.__mro__ if dataclasses.is_dataclass(base)]
    text = " ".join(" ".join(inspect.cleandoc(part.__doc__ or "").split()) for part in parts)
    name = rf"`?(?:{'|'.join(names)})\b`?(?: \([^)]*\))?"
    pieces = re.split(rf"(?:^|(?<=[;.:] ))({name}(?:(?:, | and ){name})*): ", text) if names else []
    meanings: dict[str, str] = {}
    for group, meaning in zip(pieces[1::2], pieces[2::2], strict=True):
        for word in re.findall(r"\w+", re.sub(r"\([^)]*\)", "", group)):
            meanings.setdefault(word, _sentence(meaning))
    for clause in re.split(r"[;.] ", text):
        for word in re.findall(r"`(\w+)`", clause):
            meanings.setdefault(word, re.sub(rf"^{name}(?:, {name})*: ", "", clause).rstrip(" ;."))
    return {word: meaning for word, meaning in meanings.items() if word in names}


def _sentence(meaning: str) -> str:
    """The first sentence: what follows is of all parameters."""
    first = re.split(r"\. (?=[A-Z][a-z])", meaning)[0]
    return first.rstrip(" ;.").replace("see above", "see docs/methods.md")
