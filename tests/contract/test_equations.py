"""Every function that is marked as an equation is one that a run really calls: walks the registry."""

import functools
import inspect
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pandas as pd
import pytest

from fedshift import identity
from fedshift.common.errors import FedshiftError
from fedshift.common.registry import PACKAGES, get, module, names
from fedshift.data.partition import divide
from fedshift.spec.block import params
from fedshift.testing.toys import finish, images, method, small, spec
from tests.evaluations import test_fedbn as adapting

Function = Callable[..., Any]
PLUGINS = [(kind, name) for kind in PACKAGES for name in names(kind)]
OWNERS = {module(kind, name).partition(".")[0] for kind, name in PLUGINS}


def closure(start: str) -> set[str]:
    """A module and all that it imports of the project."""
    found, waiting = set[str](), [start]
    while waiting:
        if (name := waiting.pop()) not in found:
            found.add(name)
            waiting.extend(identity._imports(name))
    return found


class Called(Exception):
    """The replaced function was reached."""


def federated(name: str, options: dict[str, Any]) -> None:
    finish(small(spec(federation={"rounds": 2}), method(name, **options)))


def rendered(name: str, options: dict[str, Any]) -> None:
    samples, clients, _ = images()
    parts = [{"sample": one.train.numpy(), "client": k, "split": "train"} for k, one in enumerate(clients)]
    table = pd.concat(map(pd.DataFrame, parts), ignore_index=True)
    kind = get("renderings", name)
    for _ in kind(params(kind, options)).render(samples.pixels.numpy(), table, 0):
        pass


def divided(name: str, options: dict[str, Any]) -> None:
    rows = range(60)
    index = pd.DataFrame({"sample": rows, "group": rows, "domain": [f"domain{row // 20}" for row in rows]})
    index = index.assign(label=index["sample"] % 2, split="train").assign(**{"class": "any"})
    divide(index, spec(partition={"scheme": name, "params": options}))


def adapted(name: str, options: dict[str, Any]) -> None:
    """Adapt what the first method trains whose network suits."""
    for trained in names("methods"):
        adaptation = adapting.adaptation(name, trained, **options)
        build = adaptation.method.model
        net, layout = adapting.network(lambda build=build: build(get("models", "digits_cnn")(2, 32)))
        try:
            adaptation.check(net.model, trained)
        except FedshiftError:
            continue
        return adaptation.adapt(net, layout, lambda size: iter(adapting.images(8).split(size)))


RUNS = {"methods": federated, "renderings": rendered, "partitions": divided, "evaluations": adapted}
# Beside what an equation's mark says of its options. CCST's own encoder needs files; the colours go the same way. Domains are dealt
# where `d` is given.
OPTIONS = {
    ("renderings", "ccst"): {"space": "rgb"},
    ("partitions", "label_dirichlet"): {"clients": 6, "min_size": 5, "d": 1},
}


def held(of: ModuleType) -> list[Function]:
    """The marked functions that a module holds, its own or imported."""
    return [one for one in vars(of).values() if inspect.isfunction(one) and hasattr(one, "equation")]


def loaded() -> list[ModuleType]:
    """The modules of this package and of those that add to it, with all plug-ins."""
    for plugin in PLUGINS:
        get(*plugin)
    modules = [one for one in sys.modules.values() if isinstance(one, ModuleType)]
    return [one for one in modules if one.__name__.partition(".")[0] in OWNERS]


def marked() -> list[Function]:
    return list(dict.fromkeys(function for one in loaded() for function in held(one)))


@functools.cache
def parts(kind: str, name: str) -> list[ModuleType]:
    """A plug-in's module, and those beside it whose names are its own with an underscore before and a word behind it."""
    main = module(kind, name)
    package, _, own = main.rpartition(".")
    return [
        part for path, part in sys.modules.items() if path == main or path.startswith(f"{package}._{own}_")
    ]


def users(function: Function) -> list[tuple[str, str]]:
    """The plug-ins whose module, or a private one named after it, holds a function or, if none does, all that import its module
    through others.

    What the round loop itself calls, FedAvg calls: it adds nothing.
    """
    able = [
        (kind, name) for kind, name in PLUGINS if kind in RUNS and getattr(get(kind, name), "adapts", True)
    ]
    direct = [plugin for plugin in able if any(function in held(part) for part in parts(*plugin))]
    if function.__module__.startswith("fedshift.federation."):
        direct.append(("methods", "fedavg"))
    return direct or [plugin for plugin in able if function.__module__ in closure(module(*plugin))]


def cases() -> Iterator[Any]:
    for function in marked():
        for kind, name in users(function):
            yield pytest.param(kind, name, function, id=f"{name}-{function.__name__}")


CASES = list(cases())


def replaced(patch: pytest.MonkeyPatch, function: Function) -> None:
    """Wherever the package or a plug-in holds `function`, it raises now."""

    def raises(*args: object, **options: object) -> None:
        raise Called

    for one in loaded():
        for key, value in list(vars(one).items()):
            if value is function:
                patch.setattr(one, key, raises)


@pytest.mark.parametrize(("kind", "name", "function"), CASES)
def test_a_run_calls_it(kind: str, name: str, function: Function, monkeypatch: pytest.MonkeyPatch) -> None:
    options = {**OPTIONS.get((kind, name), {}), **function.equation.used_with}  # type: ignore[attr-defined]
    replaced(monkeypatch, function)
    with pytest.raises(Called):
        RUNS[kind](name, options)


def test_no_equation_is_left_out() -> None:
    """Each has a run that is said to call it."""
    tried = {(case.values[2].__module__, case.values[2].__name__) for case in CASES}
    assert tried == {(function.__module__, function.__name__) for function in marked()}
