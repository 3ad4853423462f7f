"""YAML files that people write: values of JSON, unique keys, and words that mean what they look like.

YAML 1.1 and YAML 1.2 read some words without quotes differently: `24:00`, `010`, `1_000`, `yes`. Here numbers
are decimal, and 1e-3 is a number. The only truth values are true and false. Any other word that either
version does not read as text is an error.
"""

import functools
import json
import math
import re
from pathlib import Path
from typing import Any

import yaml

from fedshift.common.errors import FedshiftError
from fedshift.common.files import read_text

VALUES = 1_000_000  # in one file
# A number that is text to PyYAML, which wants a dot and a sign in it.
EXPONENT = re.compile(r"^[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)[eE][-+]?[0-9]+$")
# What a word without quotes may look like, by PyYAML's tag for it. Text: not a number of YAML 1.2 (0o17, 08).
AS_WRITTEN = {
    "tag:yaml.org,2002:int": re.compile(r"[-+]?(0|[1-9][0-9]*)"),
    "tag:yaml.org,2002:float": re.compile(r"[^:_]+"),
    "tag:yaml.org,2002:bool": re.compile(r"true|True|TRUE|false|False|FALSE"),
    "tag:yaml.org,2002:timestamp": re.compile(r"(?!)"),
    "tag:yaml.org,2002:value": re.compile(r"(?!)"),
    "tag:yaml.org,2002:str": re.compile(r"(?!0o[0-7]+$|[-+]?0[0-9]+$).*", re.DOTALL),
}
AMBIGUOUS = "!ambiguous"


class Ambiguous(yaml.MarkedYAMLError):
    """A word without quotes that YAML versions read differently."""


class _Words:
    """How words without quotes are resolved, in reading and in writing."""

    def resolve(self, kind: type[yaml.Node], value: Any, implicit: Any) -> str:
        tag: str = super().resolve(kind, value, implicit)  # type: ignore[misc]
        plain = kind is yaml.ScalarNode and implicit[0]
        if plain and tag in AS_WRITTEN and not AS_WRITTEN[tag].fullmatch(value):
            return AMBIGUOUS
        return tag


class _Writer(_Words, yaml.SafeDumper):
    """A YAML writer that quotes each text that would not be read as text."""


class _Reader(_Words, getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # C where PyYAML has it
    """A YAML reader with unique keys in each mapping and unambiguous words."""

    def ambiguous(self, node: yaml.ScalarNode) -> None:
        raise Ambiguous(problem=f"'{node.value}' has several meanings", problem_mark=node.start_mark)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            if key.value in seen:
                problem = f"'{key.value}' is here twice"
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
            seen.add(key.value)
        return dict(super().construct_mapping(node, deep))


_Reader.add_implicit_resolver("tag:yaml.org,2002:float", EXPONENT, [*"-+.0123456789"])
_Writer.add_implicit_resolver("tag:yaml.org,2002:float", EXPONENT, [*"-+.0123456789"])
_Reader.add_constructor(AMBIGUOUS, _Reader.ambiguous)
_Reader.add_constructor("tag:yaml.org,2002:int", lambda self, node: int(node.value))  # of `!!int 010`, too


def value(text: str) -> Any:
    """The value of a text. Raises yaml.YAMLError for invalid or ambiguous YAML."""
    return yaml.load(text, _Reader)


def written(value: Any, **layout: Any) -> str:
    """A value as YAML that `read` reads as the same value; `layout`: options of yaml.dump."""
    return yaml.dump(value, Dumper=_Writer, sort_keys=False, allow_unicode=True, **layout)


@functools.lru_cache(512)
def _parsed(text: str, path: Path) -> str:
    """YAML as JSON, parsed once for each text; each reader gets a copy of the values."""
    parsed = value(text)
    _check_plain(parsed, path)
    return json.dumps(parsed)


def _check_plain(parsed: Any, path: Path) -> None:
    """Raise FedshiftError for values that JSON cannot express, and if aliases make a small file large."""
    waiting, seen = [parsed], 0
    while waiting:
        part, seen = waiting.pop(), seen + 1
        cure = ""
        if isinstance(part, dict):
            waiting += part.values()
            if odd := [key for key in part if not isinstance(key, str)]:
                what, cure = f"the key {odd[0]!r} is not text", "Write it in quotes."
        elif isinstance(part, list):
            waiting += part
        elif isinstance(part, float) and not math.isfinite(part):
            what, cure = f"{part} is not a number", "Write a finite one."
        elif not isinstance(part, str | int | float | None):
            what, cure = f"{part!r} is neither text nor number", "Write it in quotes."
        if seen + len(waiting) > VALUES:
            what, cure = f"holds more than {VALUES:,} values", "Are its aliases a circle?"
        if cure:
            raise FedshiftError(path, what, cure)


def read(path: Path) -> dict[str, Any]:
    """The keys and values of a YAML file; empty for an empty file.

    Raises FedshiftError for an unreadable or invalid file.
    """
    try:
        keys = json.loads(_parsed(read_text(path), path))
    except yaml.MarkedYAMLError as error:
        mark, began = error.problem_mark or error.context_mark, error.context_mark
        context = f" ({error.context}, from line {began.line + 1} on)" if error.context and began else ""
        plainly = "Write text in quotes, numbers in decimal, truth values as true or false."
        cure = plainly if isinstance(error, Ambiguous) else "Fix that line."
        where = f"{path}:{mark.line + 1}" if mark else path
        raise FedshiftError(where, f"is not YAML: {error.problem}{context}", cure) from None
    except yaml.YAMLError as error:  # a character that YAML does not allow
        raise FedshiftError(path, f"is not YAML: {error}", "Fix that line.") from None
    except (RecursionError, ValueError) as error:  # a number of 5,000 digits
        raise FedshiftError(path, f"cannot be read: {error}", "Fix it: is it nested too deeply?") from None
    if not isinstance(keys, dict | None):
        raise FedshiftError(path, "holds no keys", "Write lines `key: value`.")
    return keys or {}
