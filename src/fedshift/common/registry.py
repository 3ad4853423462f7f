"""Find methods, models, data sets and other plug-ins by name; only the requested one is imported.

A project folder adds its own as files own/<kind>/<name>.py. Other packages add theirs by an entry point in
the group `fedshift.<kind>` that names the class.
"""

import ast
import dataclasses
import functools
import importlib
import importlib.util
import inspect
import pkgutil
import sys
import traceback
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from fedshift.common.errors import FedshiftError, check_known

PACKAGES = {
    "methods": "fedshift.methods",
    "models": "fedshift.models",
    "datasets": "fedshift.data.datasets",
    "partitions": "fedshift.data.partitions",
    "modifiers": "fedshift.data.modifiers",
    "renderings": "fedshift.data.renderings",
    "evaluations": "fedshift.evaluations",
    "figures": "fedshift.analysis.figures",
    "metrics": "fedshift.analysis.metrics",
}


OWN = "own"  # the folder of a project's own methods, models ..
_project = Path()


def use(project: Path) -> None:
    """Set the project folder with the project's own plug-ins; by default it is the present folder."""
    global _project
    if project.absolute() != _project.absolute():
        _project = project.absolute()
        forget()


def forget() -> None:
    """Search for plug-ins and import them again after a file below own/ has changed."""
    for function in (_modules, _local, _class):
        function.cache_clear()
    for name in [name for name in sys.modules if name == OWN or name.startswith(f"{OWN}.")]:
        del sys.modules[name]
    importlib.invalidate_caches()


@functools.cache
def _local(kind: str) -> dict[str, Path]:
    """The files of a kind in the project folder, by name."""
    files = sorted((_project / OWN / kind).glob("[a-z]*.py"))
    if files and (root := str(_project.absolute())) not in sys.path:
        sys.path.insert(0, root)
    return {path.stem: path for path in files}


@functools.cache
def _plugins(kind: str) -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=f"fedshift.{kind}")}


@functools.cache
def own(kind: str) -> tuple[str, ...]:
    """The names of a kind that come with this package, sorted."""
    folder = Path(__file__).parents[1].joinpath(*PACKAGES[kind].split(".")[1:])
    found = {info.name for info in pkgutil.iter_modules([str(folder)])} - {"base", "draw", "layers"}
    return tuple(sorted(name for name in found if not name.startswith("_")))


@functools.cache
def _modules(kind: str) -> dict[str, str]:
    """The module of each name of a kind. Raises FedshiftError if two plug-ins have the same name."""
    modules = {name: f"{PACKAGES[kind]}.{name}" for name in own(kind)}
    others = [(name, point.module, point.value) for name, point in _plugins(kind).items()]
    others += [(name, f"{OWN}.{kind}.{name}", str(path)) for name, path in _local(kind).items()]
    for name, module, where in others:
        if name in modules:
            cure = f"Rename the file and its class's `name`, or the entry in the group fedshift.{kind}."
            raise FedshiftError(where, f"'{name}' is the name of another one", cure)
        modules[name] = module
    return modules


def names(kind: str) -> tuple[str, ...]:
    """All names of a kind ("methods"), sorted. Raises FedshiftError if two plug-ins have the same name."""
    return tuple(sorted(_modules(kind)))


def plugin_sources() -> list[Path]:
    """The files of all packages and modules that extend this package, located without import."""
    every = (_project / OWN).rglob("*.py")  # also modules that they import
    files = sorted(path for path in every if path.parent != _project / OWN / "tests")
    roots = {point.module.partition(".")[0] for kind in PACKAGES for point in _plugins(kind).values()}
    for spec in map(importlib.util.find_spec, sorted(roots)):
        if spec and (folders := spec.submodule_search_locations):
            files += sorted(path for folder in folders for path in Path(folder).rglob("*.py"))
        elif spec and spec.origin:
            files.append(Path(spec.origin))
    return files


def module(kind: str, name: str, where: str = "registry") -> str:
    """The dotted name of the module that contains `name`. Raises FedshiftError for an unknown name."""
    check_known(where, kind.removesuffix("s"), name, names(kind), kind)
    return _modules(kind)[name]


def get(kind: str, name: str, where: str = "registry") -> Any:
    """The class with this name: the only class in its module whose attribute `name` is `name`.

    Raises FedshiftError for an unknown name, and for a file that cannot be imported or has no such class.
    """
    return _class(module(kind, name, where), name)


@functools.cache
def _class(path: str, name: str) -> Any:
    try:
        loaded = importlib.import_module(path)
    except FedshiftError:
        raise
    except Exception as error:  # a user's file may raise anything
        raise _broken(error) from error
    for _, value in inspect.getmembers(loaded, inspect.isclass):
        if value.__module__ == loaded.__name__ and getattr(value, "name", None) == name:
            if hasattr(value, "Params") and not dataclasses.is_dataclass(value.Params):
                what = f"{value.__name__}.Params is not a dataclass"
                raise FedshiftError(loaded.__file__, what, "Write @dataclass(frozen=True) above it.")
            return value
    what = f"no class has name = '{name}'"
    raise FedshiftError(loaded.__file__, what, f'Write `name = "{name}"` in the one that this file is for.')


def _broken(error: Exception) -> FedshiftError:
    """The error for a file that cannot be imported, with the line where the import failed."""
    if isinstance(error, SyntaxError):
        place, what = f"{error.filename}:{error.lineno}", error.msg
    else:
        last = traceback.extract_tb(error.__traceback__)[-1]
        place, what = f"{last.filename}:{last.lineno}", str(error)
    return FedshiftError(place, f"{type(error).__name__}: {what}", "Fix that line.")


def title(kind: str, name: str) -> str:
    """The first paragraph of the docstring, read without import. Raises FedshiftError for invalid Python."""
    spec = importlib.util.find_spec(module(kind, name))
    assert spec is not None and spec.origin is not None
    try:
        tree = ast.parse(Path(spec.origin).read_bytes(), spec.origin)
    except SyntaxError as error:
        raise _broken(error) from error
    return " ".join((ast.get_docstring(tree) or "").partition("\n\n")[0].split())
