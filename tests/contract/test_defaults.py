"""A parameter at its default is left out of a run's name: another default would give kept results a meaning that they never had."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import yaml

from fedshift.common.registry import get, own

DEFAULTS: dict[str, dict[str, dict[str, Any]]] = yaml.safe_load(
    (Path(__file__).parent / "defaults.yaml").read_text()
)


@pytest.mark.parametrize(
    "kind", ["methods", "models", "partitions", "modifiers", "renderings", "evaluations"]
)
def test_defaults_are_frozen(kind: str) -> None:
    """What is new is added to the file; a default of what is there stays, and another value is a preset or a version."""
    found = {name: dataclasses.asdict(get(kind, name).Params()) for name in own(kind)}
    assert {name: plain(values) for name, values in found.items() if values} == DEFAULTS[kind]


def plain(values: dict[str, Any]) -> dict[str, Any]:
    """Tuples as YAML has them."""
    return {key: list(value) if isinstance(value, tuple) else value for key, value in values.items()}
