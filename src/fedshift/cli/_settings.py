"""Shared by the verbs that take KEY=VALUE."""

from __future__ import annotations

import yaml

from fedshift.common.errors import FedshiftError
from fedshift.experiments.yaml_file import value as value_of


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
        except yaml.YAMLError:
            raise FedshiftError(f"{flag} {option}", "its value is not YAML", "Quote it.") from None
    return settings
