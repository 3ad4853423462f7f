"""Keys of small files that the Snakefile reads (params.yaml, slurm/cluster.yaml). Standard library only:
each Slurm job parses it twice.

A file's model is a frozen dataclass whose fields are made by `key`; docs/generate reads their metadata as
pydantic does.
"""

from __future__ import annotations

import dataclasses
import typing
from typing import Any, Literal

from fedshift.common.errors import FedshiftError, nearest


def key(description: str, default: Any = dataclasses.MISSING, **limits: int) -> Any:
    """A field of a file's model: what it means, its default (without one it must be there), and its least and
    greatest value, `ge` and `le` (1 and a million).
    """
    metadata = {"description": description, **limits}
    if default is dataclasses.MISSING:
        return dataclasses.field(metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def choices(model: type, name: str) -> tuple[str, ...]:
    """The words that a key with a Literal type may be."""
    return typing.get_args(typing.get_type_hints(model)[name])


def check(model: type, config: dict[str, Any], where: str) -> None:
    """Raises FedshiftError at `where` for an unknown key, and for a value that is not the count, word or
    text that its key asks for.
    """
    fields = {field.name: field for field in dataclasses.fields(model)}
    hints = typing.get_type_hints(model)
    for name, value in config.items():
        if name not in fields:
            raise FedshiftError(where, f"unknown key '{name}'", nearest(name, fields))
        what, description = f"'{name}' cannot be {value!r}", fields[name].metadata["description"]
        least, most = (fields[name].metadata.get(end, limit) for end, limit in (("ge", 1), ("le", 1_000_000)))
        if hints[name] is int and (type(value) is not int or not least <= value <= most):
            raise FedshiftError(
                where, what, f"{description} A whole number, {least} or more, at most {most:,}."
            )
        if typing.get_origin(hints[name]) is Literal and value not in typing.get_args(hints[name]):
            raise FedshiftError(where, what, f"Valid: {', '.join(typing.get_args(hints[name]))}.")
        if hints[name] == str | None and not isinstance(value, str | None):
            raise FedshiftError(where, what, f"{description} Write it as text, in quotes.")
