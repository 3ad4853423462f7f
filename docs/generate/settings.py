"""docs/settings.md: all keys of all configuration files, made from the models that read them; parameters of methods,
networks, schemes, modifiers and evaluations from their `Params`, whose docstrings describe them.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from pydantic import TypeAdapter

from fedshift.common.registry import get, own
from fedshift.experiments.protocols import Preset, Protocol
from fedshift.experiments.schema import Experiment
from fedshift.planning.cluster import Cluster
from fedshift.planning.request import Request
from fedshift.spec import RunSpec

Schema = dict[str, Any]
KINDS = ("methods", "models", "partitions", "modifiers", "evaluations")
FILES: dict[str, Callable[[], Schema]] = {
    "experiment": Experiment.model_json_schema,
    "protocol": Protocol.model_json_schema,
    "preset": Preset.model_json_schema,
    "params": TypeAdapter(Request).json_schema,
    "cluster": TypeAdapter(Cluster).json_schema,
}
PROTOCOL = (
    "| `<protocol>.<data set>` | part of a run | `{}` | "
    'What differs under this protocol on this data set, or on all (`"*"`). |'
)
TYPES = {
    "object": "mapping",
    "array": "list",
    "string": "text",
    "boolean": "true or false",
    "integer": "whole number",
    "number": "number",
    "null": "`null`",
}


def run() -> str:
    """A table of a run's keys."""
    return "\n".join(_table(RunSpec.model_json_schema()))


def file(kind: str) -> str:
    """What a kind of file is, and a table of its keys."""
    schema = FILES[kind]()
    schema.get("properties", {}).pop("name", None)
    about = " ".join(schema["description"].split())
    return "\n".join([f"{about}\n", *_table(schema, [PROTOCOL] if kind == "preset" else [])])


def of(kind: str) -> str:
    """A table of the parameters of all plug-ins of a kind."""
    known = parameters(kind)
    rows = ["| of | parameter | type or values | default | meaning |", "|---|---|---|---|---|"]
    for name, schema in known.items():
        for key, inner in schema.get("properties", {}).items():
            rows.append(f"| `{name}` {_row(key, inner, key in schema.get('required', ()))}")
    if without := [f"`{name}`" for name, schema in known.items() if not schema.get("properties")]:
        rows.append(f"\nWithout parameters: {', '.join(without)}.")
    return "\n".join(rows)


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


def _table(schema: Schema, first: Iterable[str] = ()) -> Iterator[str]:
    yield "| key | type or values | default | meaning |"
    yield "|---|---|---|---|"
    yield from first
    yield from _rows(schema, schema.get("$defs", {}), "")


def _rows(block: Schema, defs: dict[str, Schema], prefix: str) -> Iterator[str]:
    """One line for each key of a block, those of the blocks inside below it."""
    for name, inner in block["properties"].items():
        key = f"{prefix}{name}"
        of_names = inner.get("additionalProperties", {})
        reference = _reference(inner) or (_reference(of_names) if isinstance(of_names, dict) else "")
        if not reference or name == "axes":
            yield _row(key, inner, name in block.get("required", ()))
        if reference:
            yield from _rows(defs[reference], defs, f"{key}." if _reference(inner) else f"{key}.<name>.")


def _reference(schema: Schema) -> str:
    """The block that a key holds, "" for none."""
    for option in (schema, *schema.get("anyOf", ())):
        if "$ref" in option:
            return str(option["$ref"]).rpartition("/")[2]
    return ""


def _row(key: str, schema: Schema, required: bool) -> str:
    has = "default" in schema and not required
    default = f"`{json.dumps(schema['default'], ensure_ascii=False)}`" if has else ""
    cells = (f"`{key}`", _type(schema), default, schema.get("description", ""))
    escaped = (cell.replace("|", r"\|") for cell in cells)
    return f"| {' | '.join(escaped)} |"


def _type(schema: Schema) -> str:
    """A JSON schema in a few words."""
    if "enum" in schema:
        return ", ".join(f"`{word}`" for word in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_type(option) for option in schema["anyOf"]))
    if "$ref" in schema:
        return "mapping"
    kind = TYPES.get(schema.get("type", ""), "any")
    if "prefixItems" in schema:
        return f"{kind} of {len(schema['prefixItems'])} {_type(schema['prefixItems'][0])}s"
    if kind == "list" and schema.get("items"):
        return f"list of {_type(schema['items'])}"
    signs = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
    limits = ", ".join(f"{sign} {schema[word]}" for word, sign in signs.items() if word in schema)
    return f"{kind} {limits}".rstrip()
