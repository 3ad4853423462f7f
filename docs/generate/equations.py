"""docs/equations.md: one section for each equation that is marked in the package."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from fedshift.common.equations import Equation
from fedshift.common.registry import get, own

KINDS = ("methods", "evaluations", "partitions")


def equations() -> str:
    """One section for each equation that is marked in the package, by paper and number."""
    parts = [
        "# Equations\n",
        "Made by `make docs` from the functions that carry `@equation`. Each can be called alone; what is no plain tensor or number is made as"
        "\nits section says.\n",
    ]
    paper = ""
    for function in sorted(_functions(), key=_order):
        mark: Equation = function.equation  # type: ignore[attr-defined]
        if mark.paper != paper:
            paper = mark.paper
            parts.append(f"## {paper}\n")
        used = ", ".join(f"`{key}: {value}`" for key, value in mark.used_with.items())
        parts.append(
            f"### {mark.number}: `{function.__name__}`\n\n"
            f"```python\nfrom {function.__module__} import {function.__name__}\n\n"
            f"{function.__name__}{inspect.signature(function, eval_str=True)}\n```\n\n{inspect.getdoc(function)}\n"
            + (f"\nA run calls it under {used}.\n" if used else "")
        )
    return "\n".join(parts)


def _order(function: Callable[..., Any]) -> tuple[Any, ...]:
    mark: Equation = function.equation  # type: ignore[attr-defined]
    number = [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", mark.number)]
    return mark.paper, [str(part).zfill(4) for part in number], function.__name__


def _functions() -> list[Callable[..., Any]]:
    for kind in KINDS:
        for name in own(kind):
            get(kind, name)
    functions: dict[tuple[str, str], Callable[..., Any]] = {}
    for module in list(sys.modules.values()):
        if isinstance(module, ModuleType) and module.__name__.startswith("fedshift."):
            for value in vars(module).values():
                if hasattr(value, "equation") and inspect.isfunction(value):
                    functions[value.__module__, value.__name__] = value
    return list(functions.values())
