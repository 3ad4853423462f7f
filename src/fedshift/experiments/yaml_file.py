"""YAML files: read as JSON's values, each key once, with 1e-3 for a number as in YAML 1.2."""

from __future__ import annotations

import functools
import json
import math
import re
from pathlib import Path
from typing import Any

import yaml

from fedshift.common.errors import FedshiftError
from fedshift.spec.block import MOST

EXPONENT = re.compile(r"^[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$")  # text to PyYAML, which asks for 1.0e-3


class _Once(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # C where PyYAML has it
    """YAML in which a mapping has each key once; PyYAML keeps the last one silently."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            if key.value in seen:
                raise yaml.MarkedYAMLError(
                    problem=f"'{key.value}' stands here twice", problem_mark=key.start_mark
                )
            seen.add(key.value)
        return dict(super().construct_mapping(node, deep))


_Once.add_implicit_resolver("tag:yaml.org,2002:float", EXPONENT, [*"-+.0123456789"])


def value(text: str) -> Any:
    """What a text says. Raises yaml.YAMLError for what is not YAML."""
    return yaml.load(text, _Once)


@functools.lru_cache(512)
def _parsed(text: str, path: Path) -> str:
    """YAML as JSON, of which each reader gets values of its own: an experiment reads its protocol and presets
    once for each method, and a scorecard them all a hundred times.
    """
    parsed = value(text)
    _check_plain(parsed, path)
    return json.dumps(parsed)


def _check_plain(parsed: Any, path: Path) -> None:
    """Raise FedshiftError for what JSON has no word for - a key that is no text, a date, an infinite number -
    and where aliases make a small file large.
    """
    waiting, seen = [parsed], 0
    while waiting:
        part, seen = waiting.pop(), seen + 1
        cure = ""
        if isinstance(part, dict):
            waiting += part.values()
            if odd := [key for key in part if not isinstance(key, str)]:
                what, cure = f"the key {odd[0]!r} is no text", "Write it in quotes."
        elif isinstance(part, list):
            waiting += part
        elif isinstance(part, float) and not math.isfinite(part):
            what, cure = f"{part} is no number", "Write a finite one."
        elif not isinstance(part, str | int | float | None):
            what, cure = f"{part!r} is neither text nor number", "Write it in quotes."
        if seen + len(waiting) > MOST:
            what, cure = f"holds more than {MOST:,} values", "Are its aliases a circle?"
        if cure:
            raise FedshiftError(path, what, cure)


def read(path: Path) -> dict[str, Any]:
    """The keys of a YAML file, none of an empty one. Raises FedshiftError where it cannot be read so."""
    try:
        keys = json.loads(_parsed(path.read_text(encoding="utf-8"), path))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise FedshiftError(path, f"is not YAML: {error}", "Mend the line that it names.") from None
    except (RecursionError, ValueError) as error:  # YAML's words that Python has no value for: 2001-02-30
        raise FedshiftError(path, f"cannot be read: {error}", "Mend it: is it nested too deeply?") from None
    if not isinstance(keys, dict | None):
        raise FedshiftError(path, "holds no keys", "Write lines `key: value`; see docs/add-an-experiment.md.")
    return keys or {}
