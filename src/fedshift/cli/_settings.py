"""Shared by the verbs that take KEY=VALUE."""

from __future__ import annotations

import yaml

from fedshift.common.errors import FedshiftError
from fedshift.common.yaml_file import value as value_of


def parsed(options: tuple[str, ...], flag: str) -> dict[str, object]:
    """Settings of `FLAG KEY=VALUE`, values as YAML. Raises FedshiftError where there is no "=", and for a
    value that is not YAML.
    """
    settings = {}
    for option in options:
        key, equals, value = option.partition("=")
        if not equals:
            raise FedshiftError(f"{flag} {option}", "has no '='", f"Write {flag} KEY=VALUE.")
        try:
            settings[key] = value_of(value)
        except (yaml.YAMLError, RecursionError, ValueError) as error:
            problem = getattr(error, "problem", None) or error
            cure = f"In quotes it is text: {flag} '{key}=\"{value}\"'."
            raise FedshiftError(f"{flag} {option}", f"its value is not YAML: {problem}", cure) from None
    return settings
