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

WRITTEN = "Written by fedshift.register."
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

    A registered class of the same name is replaced. Runs of changed code are different runs.

    `method`: a subclass of `fedshift.federation.method.Method` with a `name` (docs/add-a-method.md).
    `model`: a subclass of `fedshift.models.base.Model` with a `name` (docs/extend.md), or any `nn.Module`
        with the properties below. Its name is then that of the class in lower case.

    Requirements for an `nn.Module`:

    - its constructor takes the number of classes (`classes` or `num_classes`);
    - its last layer is an `nn.Linear`;
    - it maps images [B, 3, h, w] to logits [B, C].

    Raises FedshiftError for a class that cannot be written to a file: one that uses a global variable that is
    neither a plain constant nor code. Also raises it if own/ has a file of this name written by hand.

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
        cure = 'Write `name = "my_name"` in it: small letters, digits and _.'
        raise FedshiftError("fedshift.register", what, cure)
    path = workspace_of(root).root / registry.OWN / kind / f"{name}.py"
    if not path.is_file() and name in registry.names(kind):
        what = f"'{name}' is a name of fedshift's own"
        raise FedshiftError("fedshift.register", what, "Choose another `name`.")
    if path.is_file() and WRITTEN not in path.read_text(encoding="utf-8"):
        raise FedshiftError(path, "was written by hand: it is not replaced", "Choose another `name`.")
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
    title = inspect.cleandoc(cls.__doc__ or f"{cls.__name__}.").splitlines()[0]
    head = [f'"""{title} {WRITTEN}"""', "", *sorted(imports), "", ""]
    return "\n".join([*head, "\n\n".join(code.values())])


def _collect(thing: Any, code: dict[str, str], imports: set[str]) -> None:
    """Add the code of a function or class to `code`, after everything that it uses."""
    name, text = thing.__name__, _text(thing)
    where = f"fedshift.register({name})"
    code[name] = ""  # begun: recursion ends
    scope = vars(sys.modules[thing.__module__]) if isinstance(thing, type) else thing.__globals__
    for used in _globals(text):
        if used in code or used == name or (used not in scope and hasattr(builtins, used)):
            continue
        if used not in scope:
            raise FedshiftError(where, f"it uses '{used}', which is not defined", "Define it first.")
        value = scope[used]
        called = getattr(value, "__name__", "")
        alias = "" if called == used else f" as {used}"
        if isinstance(value, ModuleType):
            imports.add(f"import {called}{alias}")
        elif called and (home := getattr(value, "__module__", None)) and _installed(home):
            imports.add(f"from {home} import {called}{alias}")
        elif isinstance(value, type | FunctionType):
            _collect(value, code, imports)
        else:
            code[used] = f"{used} = {pprint.pformat(value)}\n"
            try:
                ast.literal_eval(pprint.pformat(value))
            except (SyntaxError, ValueError):
                what = f"it uses '{used}', a {type(value).__name__}, which cannot be written down"
                cure = "Make it a parameter, a plain constant or a function."
                raise FedshiftError(where, what, cure) from None
    del code[name]
    code[name] = text


def _installed(module: str) -> bool:
    """Whether a module comes with Python, with fedshift or with an installed package."""
    file = getattr(sys.modules.get(module), "__file__", None) or ""
    places = sysconfig.get_paths()
    known = {"fedshift", *sys.stdlib_module_names}
    inside = module.partition(".")[0] in known or file.startswith((places["purelib"], places["platlib"]))
    return module != "__main__" and inside


def _text(thing: Any) -> str:
    """The source of a function or class. In a notebook, `inspect` does not find that of a class."""
    try:
        return textwrap.dedent(inspect.getsource(thing))
    except (OSError, TypeError):
        cells = (getattr(value, "__code__", None) for value in vars(thing).values())
    for cell in filter(None, cells):
        lines = linecache.getlines(cell.co_filename)
        for node in ast.parse("".join(lines)).body:
            if isinstance(node, ast.ClassDef) and node.name == thing.__name__:
                start = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
                return "".join(lines[start - 1 : node.end_lineno]) + "\n"
    what = "its source is not known to Python"
    cure = "Define it in a notebook's cell or in a file."
    raise FedshiftError(f"fedshift.register({thing.__name__})", what, cure)


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
