"""Blocks: frozen groups of options that reject unknown keys; parameters of plug-ins; error messages for
both.
"""

import dataclasses
import functools
import math
import typing
from typing import Annotated, Any, Literal, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError, ValidationInfo, field_validator
from pydantic.fields import FieldInfo

from fedshift.common.errors import FedshiftError, nearest

Block = TypeVar("Block", bound=BaseModel)
MOST = 1_000_000  # of anything that is counted: beyond it is a slip of the pen, and sums leave 64 bits


class Closed(BaseModel):
    """A frozen block of options that rejects unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _no_truth_value(cls, value: Any, info: ValidationInfo) -> Any:
        """Reject `true` and `false` for numbers, although Python accepts them as 1 and 0."""
        if isinstance(value, bool):
            kind = cls.model_fields[str(info.field_name)].annotation
            if {int, float} & {kind, *get_args(kind)}:
                raise ValueError("must be a number, not true or false")
        return value


def closed(block: type[Block], value: object, where: str) -> Block:
    """Validate `value` as a closed block. Raises FedshiftError with a hint for the first mistake."""
    try:
        return block.model_validate(value)
    except ValidationError as error:
        raise _explain(block, error, where) from None


def _explain(block: type[BaseModel], error: ValidationError, where: str) -> FedshiftError:
    """The error for the most helpful mistake of a validation.

    Unknown keys come first, because a misspelled key is also missing. Wrong types of text and lists come
    last, because they are reported for each form that a value might have.
    """
    rank = {"extra_forbidden": 0, "string_type": 2, "list_type": 2, "tuple_type": 2}
    errors = [mistake for mistake in error.errors() if not _of_another_form(mistake)] or error.errors()
    first = min(errors, key=lambda mistake: rank.get(mistake["type"], 1))
    of_forms = first["type"] == "string_type" and first["loc"][-1] == "str"
    forms = {form.__name__ for form in Closed.__subclasses__()}
    parts = [str(part) for part in first["loc"][: -1 if of_forms else None] if part not in forms]
    pair = next((place for place, part in enumerate(parts) if part.startswith("tuple[")), None)
    place = ".".join(part for part in parts[:pair] if not part.startswith("literal["))
    kind, given = first["type"], first["input"]
    if pair is not None:  # of a value that may also be a single one
        count = parts[pair].count(",") + 1
        what, cure = f"'{place}' is not a list of {count} values", "Give that many, or a single one."
    elif kind == "extra_forbidden":
        what = f"unknown key '{place}'"
        inside = [name for name, of in block.model_fields.items() if place in _fields(of.annotation)]
        dotted = " or ".join(f"'{name}.{place}'" for name in inside)
        valid = _keys(block, first["loc"][:-1])
        cure = f"Did you mean {dotted}?" if dotted else nearest(str(first["loc"][-1]), valid)
    elif kind == "literal_error":
        choices = [choice.strip("' ") for choice in first["ctx"]["expected"].replace(" or ", ", ").split(",")]
        what, cure = f"'{place}' cannot be '{given}'", nearest(str(given), choices)
    elif kind == "missing":
        what, cure = f"'{place}' is missing", f"Add '{place}'; runs may have it from their protocol, too."
    else:
        shown = f" (got {given!r})" if isinstance(given, str | int | float) else ""
        what = f"'{place or block.__name__}': {first['msg'].removeprefix('Value error, ')}{shown}"
        cure = "Write it in quotes." if kind == "string_type" and isinstance(given, int | float) else ""
    return FedshiftError(where, what, cure)


def _of_another_form(mistake: Any) -> bool:
    """Whether a mistake only concerns the other form of a value that may be a word or a block."""
    block = mistake["type"] == "model_type" and not isinstance(mistake["input"], dict)
    return block or (mistake["type"] == "literal_error" and isinstance(mistake["input"], dict))


def _keys(block: type[BaseModel], path: tuple[int | str, ...]) -> list[str]:
    """The keys of the block at `path`: below its fields, and below any name in a mapping of blocks."""
    inner: Any = block
    for part in path:
        fields = _fields(inner)
        inner = fields[str(part)].annotation if str(part) in fields else (get_args(inner) or (None,))[-1]
    return list(_fields(inner))


def _fields(kind: Any) -> dict[str, FieldInfo]:
    return kind.model_fields if isinstance(kind, type) and issubclass(kind, BaseModel) else {}


_adapter = functools.cache(TypeAdapter[Any])
_hints = functools.cache(functools.partial(typing.get_type_hints, include_extras=True))
BOUNDED = (Annotated, Literal)  # types that say which numbers they may be: `Annotated[float, Field(ge=-1)]`


def params(plugin: Any, overrides: dict[str, Any], where: str = "params") -> Any:
    """The plug-in's frozen `Params` with `overrides` filled in and values converted to the declared types.

    Raises FedshiftError at `where` for an unknown key, and for a value that its type does not allow. Numbers
    must be 0 or more, unless their type has other bounds.
    """
    valid = [field.name for field in dataclasses.fields(plugin.Params)]
    for key in overrides:
        if key not in valid:
            raise FedshiftError(where, f"unknown key '{key}' of {plugin.name}", nearest(key, valid))
    try:
        filled = _adapter(plugin.Params).validate_python(overrides)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        of = f"'{key}' of {plugin.name}" if key else plugin.name
        what = f"{of}: {first['msg'].removeprefix('Value error, ')}"
        raise FedshiftError(where, what, f"Got {first['input']!r}.") from None
    for name, value in vars(filled).items():
        number, wrong = isinstance(value, int | float) and not isinstance(value, bool), ""
        hint = _hints(plugin.Params)[name]
        bounded = any(typing.get_origin(part) in BOUNDED for part in (hint, *typing.get_args(hint)))
        if isinstance(value, float) and not math.isfinite(value):
            wrong = "is not finite"
        elif isinstance(overrides.get(name), bool) and not isinstance(value, bool):
            wrong = "is a number"
        elif number and not bounded and not 0 <= value <= MOST:
            wrong = f"must be from 0 to {MOST:,}"
        if wrong:
            raise FedshiftError(where, f"'{name}' of {plugin.name} {wrong}", f"Got {value!r}.")
    return filled


def overridden(plugin: Any, overrides: dict[str, Any], where: str) -> dict[str, Any]:
    """The `overrides` that differ from the plug-in's defaults. Raises FedshiftError as `params` does."""
    filled, default = params(plugin, overrides, where), plugin.Params()
    return {name: value for name, value in vars(filled).items() if value != getattr(default, name)}
