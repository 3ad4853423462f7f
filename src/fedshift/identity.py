"""The version of the engine, and the fingerprint of files: what code computes, whatever it is called."""

import ast
import functools
import importlib.util
from pathlib import Path

from fedshift.common.files import sha256

ENGINE_VERSION = 1

# Packages whose modules a fingerprint covers where a method or model imports them, less what all have.
METHODS = ("fedshift.methods.", "fedshift.models.", "fedshift.data.renderings.")
SHARED = frozenset(["fedshift.models.base"])


@functools.cache
def fingerprint(*modules: str) -> str:
    """8 hexadecimals over the syntax trees of `modules` and their imports of METHODS or their own plug-in."""
    closure: set[str] = set()
    waiting = list(modules)
    while waiting:
        name = waiting.pop()
        if name not in closure:
            closure.add(name)
            own = () if name.startswith("fedshift.") else (f"{name.partition('.')[0]}.",)
            waiting += [one for one in _imports(name) - SHARED if one.startswith((*METHODS, *own))]
    return sha256("\n".join(sorted(map(_tree_hash, closure))))[:8]


def forget() -> None:
    """Read all files again: one has changed."""
    for function in (fingerprint, _source, _tree_hash, _imports):
        function.cache_clear()


@functools.cache
def _source(name: str) -> Path | None:
    try:
        spec = importlib.util.find_spec(name)
    except ModuleNotFoundError:
        return None
    return Path(spec.origin) if spec and spec.origin else None


@functools.cache
def _tree_hash(name: str) -> str:
    path = _source(name)
    assert path is not None
    return sha256(canonical_dump(ast.parse(path.read_bytes())))


@functools.cache
def _imports(name: str) -> frozenset[str]:
    path, roots = _source(name), (name.partition(".")[0], "fedshift")
    assert path is not None
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    targets: set[str] = set()
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            targets |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = importlib.util.resolve_name("." * node.level + (node.module or ""), package)
            targets |= {base, *(f"{base}.{alias.name}" for alias in node.names)}
    return frozenset(one for one in targets if one.partition(".")[0] in roots and _source(one))


def canonical_dump(tree: ast.AST) -> str:
    """A syntax tree as text, without what computes nothing; the same for all versions of Python."""
    if isinstance(tree, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and (
        ast.get_docstring(tree, clean=False) is not None
    ):
        tree.body = tree.body[1:]
    fields, annotated = [], isinstance(tree, ast.AnnAssign) and tree.value is not None
    for field, value in ast.iter_fields(tree):
        if (value is None and not isinstance(tree, ast.Constant)) or value == []:
            continue
        if field in ("kind", "type_comment", "ctx", "annotation", "returns", "simple"):
            continue
        items = value if isinstance(value, list) else [value]
        if isinstance(tree, ast.JoinedStr):  # Python 3.12 ends some formats with an empty constant
            items = [item for item in items if not (isinstance(item, ast.Constant) and item.value == "")]
        items = [item for item in items if not _only_names(item)]
        text = ",".join(canonical_dump(item) if isinstance(item, ast.AST) else repr(item) for item in items)
        fields.append(f"{'targets' if annotated and field == 'target' else field}=[{text}]")
    return f"{'Assign' if annotated else type(tree).__name__}({' '.join(fields)})"


def _only_names(item: object) -> bool:
    """Whether a statement only brings in names."""
    return isinstance(item, ast.Import | ast.ImportFrom) or (
        isinstance(item, ast.If) and isinstance(item.test, ast.Name) and item.test.id == "TYPE_CHECKING"
    )
