"""Every function that is marked as an equation is one that a run really calls: walks the registry."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest

from fedshift.registry import get, module, names
from tests.federation.toys import finish, method, small, spec

PACKAGES = {"fedshift", *(module("methods", name).partition(".")[0] for name in names("methods"))}


class Called(Exception):
    """The replaced function was reached."""


def equations() -> Iterator[Any]:
    """(method, function) for every equation in a method's module, its own or imported."""
    for name in names("methods"):
        loaded = sys.modules[get("methods", name).__module__]
        for function in vars(loaded).values():
            if hasattr(function, "equation"):
                yield pytest.param(name, function, id=f"{name}-{function.__name__}")


def replaced(patch: pytest.MonkeyPatch, function: Callable[..., Any]) -> None:
    """Wherever the package or a plug-in holds `function`, it raises now."""

    def raises(*args: object, **options: object) -> None:
        raise Called

    for loaded in list(sys.modules.values()):
        if isinstance(loaded, ModuleType) and loaded.__name__.partition(".")[0] in PACKAGES:
            for key, value in list(vars(loaded).items()):
                if value is function:
                    patch.setattr(loaded, key, raises)


@pytest.mark.parametrize(("name", "function"), list(equations()))
def test_a_run_calls_it(name: str, function: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    options = function.equation.used_with  # type: ignore[attr-defined]
    replaced(monkeypatch, function)
    federation = small(spec(federation={"rounds": 2}), method(name, **options))
    with pytest.raises(Called):
        finish(federation)
