"""`fedshift.register`: make a custom method or network known by name, also from a notebook.

The class is written to own/<kind>/<name>.py in the project folder, with everything that it uses: imports,
plain constants, functions and classes of the same notebook. Run ids depend on the code in that file. Every
process finds it there, and it can be committed.
"""

import ast
import builtins
import inspect
import linecache
import pprint
import symtable
import sys
import sysconfig
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from torch import nn

from fedshift import identity
from fedshift.api._arguments import Root
from fedshift.api._arguments import workspace as workspace_of
from fedshift.common import registry
from fedshift.common.errors import FedshiftError
from fedshift.common.files import sha256, write_text
from fedshift.federation.method import Method
from fedshift.models.base import Model

PLAIN = (bool, int, float, str, bytes, type(None))
WRAPPED = '''\

class Registered(AnyModule):
    """{name} as a network of fedshift."""

    name = "{name}"
    network = {cls}
'''


def register(
    *, method: type[Method] | None = None, model: type[nn.Module] | None = None, root: Root = None
) -> str:
    """Make a method or a network known by name, and return the name.

    A class of the same name is replaced. Runs of changed code are different runs.

    `method`: a subclass of `fedshift.federation.method.Method` with a `name` (docs/add-a-method.md).
    `model`: a subclass of `fedshift.models.base.Model` with a `name` (docs/extend.md), or any `nn.Module`
        with the properties below. Its name is then that of the class in lower case.

    Requirements for an `nn.Module`:

    - its constructor takes the number of classes (`classes` or `num_classes`);
    - its last layer is an `nn.Linear`;
    - it maps images [B, 3, h, w] to logits [B, C].

    Raises FedshiftError for a class that cannot be written to a file: one that uses a global variable that is
    neither a plain constant nor code.

    >>> class Tiny(torch.nn.Sequential):
    ...     def __init__(self, classes):
    ...         super().__init__(torch.nn.Conv2d(3, 8, 3), torch.nn.AdaptiveAvgPool2d(1),
    ...                          torch.nn.Flatten(), torch.nn.Linear(8, classes))
    >>> fedshift.register(model=Tiny)
    'tiny'
    >>> run = fedshift.run("fedavg", "digits", "ink", rounds=1, settings={"model.name": "tiny"})
    """
    if (method is None) == (model is None):
        raise FedshiftError("fedshift.register", "takes one class", "Give method=CLASS or model=CLASS.")
    kind, cls = ("methods", method) if method is not None else ("models", model)
    base: type = Method if method is not None else nn.Module
    if not (isinstance(cls, type) and issubclass(cls, base)):
        cure = f"Give a subclass of {base.__module__}.{base.__name__}, not an object of it."
        raise FedshiftError("fedshift.register", f"{cls!r} is not a class of that kind", cure)
    wrapped = kind == "models" and not issubclass(cls, Model)
    name = cls.__name__.lower() if wrapped else getattr(cls, "name", "")
    if not name.isidentifier() or name != name.lower():
        what = f"{cls.__name__} has the name {name!r}"
        raise FedshiftError(
            "fedshift.register", what, 'Write `name = "my_name"` in it: small letters, digits and _.'
        )
    registry.use(Path(folder := workspace_of(root).root))
    path = Path(folder) / registry.OWN / kind / f"{name}.py"
    if not path.is_file() and name in registry.names(kind):
        raise FedshiftError(
            "fedshift.register", f"'{name}' is a name of fedshift's own", "Choose another `name`."
        )
    text = source(cls) + (WRAPPED.format(name=name, cls=cls.__name__) if wrapped else "")
    if wrapped:
        text = text.replace("\n\n\n", "\n\nfrom fedshift.models.base import AnyModule\n\n\n", 1)
    known = "Registered" if wrapped else cls.__name__
    version = int(sha256(identity.canonical_dump(ast.parse(text)))[:8], 16)
    write_text(path, f"{text}\n\n{known}.version = {version}  # of this source: other code, other runs\n")
    registry.forget()
    identity.forget()
    registry.get(kind, name)
    return name


def source(cls: type) -> str:
    """A module that contains a class and everything that it uses."""
    code: dict[str, str] = {}
    imports: set[str] = set()
    _collect(cls, code, imports)
    said = inspect.cleandoc(cls.__doc__ or f"{cls.__name__}.").splitlines()[0]
    lines = [
        f'"""{said} Written by fedshift.register."""',
        "",
        *sorted(imports),
        "",
        "",
        "\n\n".join(code.values()),
    ]
    return "\n".join(lines)


def _collect(thing: Any, code: dict[str, str], imports: set[str]) -> None:
    """Add the code of a function or class to `code`, after everything that it uses."""
    name, text = thing.__name__, _text(thing)
    code[name] = ""  # begun: recursion ends
    scope = vars(sys.modules[thing.__module__]) if isinstance(thing, type) else thing.__globals__
    for used in _globals(text):
        if used in code or used == name or (used not in scope and hasattr(builtins, used)):
            continue
        if used not in scope:
            raise FedshiftError(
                f"fedshift.register({name})", f"it uses '{used}', which is not defined", "Define it first."
            )
        value = scope[used]
        if isinstance(value, ModuleType):
            root = value.__name__
            imports.add(f"import {root}" if root == used else f"import {root} as {used}")
        elif (home := getattr(value, "__module__", None)) and _installed(home) and hasattr(value, "__name__"):
            other = value.__name__
            imports.add(f"from {home} import {other}" + ("" if other == used else f" as {used}"))
        elif isinstance(value, type | FunctionType):
            _collect(value, code, imports)
        elif _plain(value):
            code[used] = f"{used} = {pprint.pformat(value)}\n"
        else:
            what = f"it uses '{used}', a {type(value).__name__}, which cannot be written down"
            cure = "Make it a parameter, a plain constant or a function."
            raise FedshiftError(f"fedshift.register({name})", what, cure)
    del code[name]
    code[name] = text


def _plain(value: Any) -> bool:
    if isinstance(value, dict):
        return all(map(_plain, (*value, *value.values())))
    return isinstance(value, PLAIN) or (
        isinstance(value, list | tuple | set | frozenset) and all(map(_plain, value))
    )


def _installed(module: str) -> bool:
    """Whether a module comes with Python, with fedshift or with an installed package."""
    loaded = sys.modules.get(module)
    if module == "__main__" or loaded is None:
        return False
    file = getattr(loaded, "__file__", None)
    places = {sysconfig.get_paths()[key] for key in ("stdlib", "platstdlib", "purelib", "platlib")}
    return (
        file is None
        or module.partition(".")[0] == "fedshift"
        or any(str(file).startswith(place) for place in places)
    )


def _text(thing: Any) -> str:
    """The source of a function or class. In a notebook, `inspect` alone does not find that of a class."""
    try:
        return textwrap.dedent(inspect.getsource(thing))
    except (OSError, TypeError):
        pass
    functions = (
        [value for value in vars(thing).values() if isinstance(value, FunctionType)]
        if isinstance(thing, type)
        else []
    )
    for function in functions:
        text = "".join(linecache.getlines(function.__code__.co_filename))
        for node in ast.walk(ast.parse(text)):
            first = function.__code__.co_firstlineno
            if (
                isinstance(node, ast.ClassDef)
                and node.name == thing.__name__
                and node.lineno <= first <= (node.end_lineno or 0)
            ):
                start = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
                return (
                    textwrap.dedent("".join(text.splitlines(keepends=True)[start - 1 : node.end_lineno]))
                    + "\n"
                )
    what = "its source is not known to Python"
    raise FedshiftError(
        f"fedshift.register({thing.__name__})", what, "Define it in a notebook's cell or in a file."
    )


def _globals(text: str) -> Iterator[str]:
    """The global names that a piece of source uses, each once."""
    found: dict[str, None] = {}

    def look(table: symtable.SymbolTable, top: bool) -> None:
        for symbol in table.get_symbols():
            if symbol.is_referenced() and (symbol.is_global() or (top and not symbol.is_assigned())):
                found.setdefault(symbol.get_name())
        for child in table.get_children():
            look(child, False)

    look(symtable.symtable(text, "<registered>", "exec"), True)
    yield from found
