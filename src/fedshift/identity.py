"""What runs and their data are called: the digest of what is declared. And the fingerprint of a method.

A digest is known before any data exist. It covers the RunSpec (fields at their frozen default left out) and
the declared versions of engine, method, model, data set and partition scheme. So results keep their names
when code is tidied; a change of what code computes needs a higher `version` (that of the engine is here, and
the golden results in tests/golden guard it). A run's name has no fingerprint: a finished run notes that of
its method and model, so that a change of their files is seen (`fedshift.planning.settle`). What is quickly
made again - partitions, rendered images, evaluations - is named by the fingerprint of its plug-ins, too.
"""

from __future__ import annotations

import ast
import functools
import importlib.util
from collections.abc import Iterator
from pathlib import Path

from fedshift.build import method_of, rendering_of
from fedshift.common.files import canonical_json, sha256
from fedshift.common.registry import get, module
from fedshift.spec import Division, RunSpec, Source

ENGINE_VERSION = 1
Versions = dict[str, int | str]

# Packages whose modules a fingerprint covers where a method or model imports them, less what all have.
METHODS = ("fedshift.methods.", "fedshift.models.", "fedshift.data.renderings.")
SHARED = frozenset(["fedshift.models.base"])


def digest(spec: RunSpec) -> str:
    """The id of a run: 16 hexadecimals over what a resolved spec declares."""
    return digest_under(spec, versions(spec))


def digest_under(spec: RunSpec, declared: Versions) -> str:
    """The digest of a resolved spec where these versions are declared."""
    return sha256(
        canonical_json({"spec": spec.model_dump(mode="json", exclude_defaults=True), "versions": declared})
    )[:16]


def versions(spec: RunSpec) -> Versions:
    """The declared version of the engine, and of everything that a resolved spec names."""
    declared: Versions = {
        "engine": ENGINE_VERSION,
        "method": method_of(spec).version,
        "model": get("models", spec.model.name).version,
        "dataset": get("datasets", spec.data.dataset).version,
        "partition": get("partitions", spec.partition.scheme).version,
    }
    if rendering := rendering_of(spec):
        declared["rendering"] = rendering.version
    declared |= {name: get("modifiers", name).version for name in spec.partition.modify}
    if spec.model.init != "scratch":
        declared["weights"] = get("models", spec.model.name).weights[spec.model.init]
    return declared


def method_code(spec: RunSpec) -> str:
    """8 hexadecimals over the files of a run's method and model."""
    rendering = rendering_of(spec)
    return fingerprint(
        module("methods", spec.method.name),
        module("models", spec.model.name),
        *([module("renderings", rendering.name)] if rendering else []),
    )


def run_name(spec: RunSpec, digest: str) -> str:
    """`<data set>/<method>/<target>/seed<seed>/<digest>`: the directory of a run below results/runs."""
    target = spec.data.target_name or "none"
    return f"{spec.data.dataset}/{spec.method.name}/{target}/seed{spec.seed}/{digest}"


def prepared_name(data: Source) -> str:
    """`<data set>/<px>-<recipe>`: the folder of decoded images below data/prepared.

    The recipe covers release, resampling, and the versions of the data set and of the engine. Not covered is
    what a raw tree contains: prepared.json has the tree's own hash.
    """
    version = get("datasets", data.dataset).version
    recipe = [data.release, data.prepare.model_dump(exclude_defaults=True), version, ENGINE_VERSION]
    return f"{data.dataset}/{data.prepare.px}-{_short(recipe)}"


def partition_name(spec: Division) -> str:
    """`<data set>/<recipe>`: the Parquet file of a partition below data/partitions.

    The recipe covers everything that decides who holds which sample: what is declared, the versions of
    data set, scheme, modifiers and engine, and the files of scheme and modifiers.
    """
    dataset = spec.data.dataset
    plugins = [
        ("partitions", spec.partition.scheme),
        *(("modifiers", name) for name in spec.partition.modify),
    ]
    recipe = [
        spec.data.release,
        get("datasets", dataset).version,
        spec.partition.model_dump(exclude_defaults=True),
        *(get(*plugin).version for plugin in plugins),
        ENGINE_VERSION,
        fingerprint(*(module(*plugin) for plugin in plugins)),
    ]
    return f"{dataset}/{_short([*recipe, spec.data.target, spec.seed])}"


def rendered_name(spec: RunSpec) -> str:
    """`<data set>/<recipe>`: the folder, below data/rendered, of images that a run's method makes before
    training.

    The recipe covers what they are made of and how. Only of a spec whose method renders.
    """
    rendering = rendering_of(spec)
    assert rendering is not None
    sources = [name.rpartition("/")[2] for name in (prepared_name(spec.data), partition_name(spec))]
    made_by = [rendering.name, rendering.version, fingerprint(module("renderings", rendering.name))]
    recipe = [*made_by, spec.method.params, *sources]
    return f"{spec.data.dataset}/{_short(recipe)}"


def _short(value: object) -> str:
    return sha256(canonical_json(value))[:12]


@functools.cache
def fingerprint(*modules: str) -> str:
    """8 hexadecimals over the syntax trees of `modules` and of what they import of METHODS (a plug-in: of its
    own package), whatever the files are called.
    """
    closure: set[str] = set()
    waiting = list(modules)
    while waiting:
        name = waiting.pop()
        if name not in closure:
            closure.add(name)
            own = () if name.startswith("fedshift.") else (f"{name.partition('.')[0]}.",)
            waiting += [one for one in _imports(name) - SHARED if one.startswith((*METHODS, *own))]
    return sha256("\n".join(sorted(map(_tree_hash, closure))))[:8]


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
    path, packages = _source(name), {name.partition(".")[0], "fedshift"}
    assert path is not None
    imports = set()
    for node in ast.walk(ast.parse(path.read_bytes())):
        for target in _targets(node, name, path.name == "__init__.py"):
            if target.partition(".")[0] in packages and _source(target):
                imports.add(target)
    return frozenset(imports)


def _targets(node: ast.AST, name: str, is_package: bool) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        base = node.module or ""
        if node.level:
            parts = name.split(".")[: len(name.split(".")) - node.level + is_package]
            base = ".".join([*parts, base]).rstrip(".")
        yield base
        yield from (f"{base}.{alias.name}" for alias in node.names)


def canonical_dump(tree: ast.AST) -> str:
    """A syntax tree as text, without docstrings, imports, annotations, positions and empty fields: what code
    does, as far as Python versions agree on it.
    """
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
        if isinstance(
            tree, ast.JoinedStr
        ):  # Python 3.12 ends some format specifications with an empty constant
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
