"""What runs and their data are called: the digest of what is declared, and the fingerprint of the code that
computes it.

The digest is known before any data exist. It covers the RunSpec (fields at their frozen default left out) and
the declared versions of engine, method, model, data set and partition scheme. The fingerprint covers the
syntax trees - without comments and docstrings - of every module that computes the run, with their imports
inside the package (a plug-in's: inside its own package too), cut at the modules in DESCRIBE.
"""

from __future__ import annotations

import ast
import functools
import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fedshift.build import method_of, rendering_of
from fedshift.common.files import canonical_json, sha256
from fedshift.common.registry import get, module
from fedshift.spec import Division, RunSpec, Source

ENGINE_VERSION = 1
Versions = dict[str, int | str]

ENGINE = ("fedshift.training.assemble",)
PATIENCE = "fedshift.training.patience"  # of runs that may stop early

# Modules that describe or record, and do not compute: a change in them re-runs nothing.
DESCRIBE = frozenset(["fedshift"]) | frozenset(
    f"fedshift.{name}"
    for name in (
        "common.download",
        "common.equations",
        "common.errors",
        "common.files",
        "common.registry",
        "common.tensors",
        "data.columns",
        "data.convert",
        "data.fetch",
        "data.plots",
        "data.verify",
        "federation.checkpoint",
        "federation.cost",
        "federation.diagnostics",
        "federation.records",
        "identity",
        "spec",
        "spec.resolve",
        "storage.rundir",
        "storage.weights",
        "storage.workspace",
    )
)


@dataclass(frozen=True)
class Identity:
    """`digest` (16 hexadecimals) and `code` (8): together the name of a run's directory."""

    digest: str
    code: str

    def __str__(self) -> str:
        return f"{self.digest}-{self.code}"


def identify(spec: RunSpec) -> Identity:
    """The identity of a resolved spec under the code that is installed now."""
    return Identity(digest(spec), code(spec))


def digest(spec: RunSpec) -> str:
    """16 hexadecimals over what a resolved spec declares."""
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


def code(spec: RunSpec) -> str:
    """8 hexadecimals over the code that computes a run of this spec."""
    rendering = rendering_of(spec)
    return fingerprint(
        *ENGINE,
        module("methods", spec.method.name),
        module("models", spec.model.name),
        module("datasets", spec.data.dataset),
        module("partitions", spec.partition.scheme),
        *(module("modifiers", name) for name in spec.partition.modify),
        *([module("renderings", rendering.name)] if rendering else []),
        *([PATIENCE] if spec.federation.patience else []),
    )


def run_name(spec: RunSpec, identity: Identity) -> str:
    """`<data set>/<method>/<target>/seed<seed>/<digest>-<code>`: the directory of a run below
    results/runs.
    """
    target = spec.data.target_name or "none"
    return f"{spec.data.dataset}/{spec.method.name}/{target}/seed{spec.seed}/{identity}"


def prepared_name(data: Source) -> str:
    """`<data set>/<px>-<recipe>`: the folder of decoded images below data/prepared.

    The recipe covers release, resampling, the data set's version and the code that lists, reads and resizes
    its images. Not covered is what makes or checks a raw tree (fetch, convert, verify): prepared.json holds
    the tree's own hash.
    """
    version = get("datasets", data.dataset).version
    made_by = fingerprint("fedshift.data.prepare", module("datasets", data.dataset))
    recipe = [data.release, data.prepare.model_dump(exclude_defaults=True), version, made_by]
    return f"{data.dataset}/{data.prepare.px}-{_short(recipe)}"


def partition_name(spec: Division) -> str:
    """`<data set>/<recipe>`: the Parquet file of a partition below data/partitions.

    The recipe covers everything that decides who holds which sample, the code that does it included. The data
    set's module decides domains, classes, official splits and duplicates.
    """
    dataset = spec.data.dataset
    plugins = [
        ("partitions", spec.partition.scheme),
        *(("modifiers", name) for name in spec.partition.modify),
    ]
    modules = [module("datasets", dataset), *(module(*plugin) for plugin in plugins)]
    recipe = [
        spec.data.release,
        get("datasets", dataset).version,
        spec.partition.model_dump(exclude_defaults=True),
        *(get(*plugin).version for plugin in plugins),
        fingerprint("fedshift.data.partition", *modules),
    ]
    return f"{dataset}/{_short([*recipe, spec.data.target, spec.seed])}"


def rendered_name(spec: RunSpec) -> str:
    """`<data set>/<recipe>`: the folder, below data/rendered, of images that a run's method makes before
    training.

    The recipe covers what they are made of and how. Only of a spec whose method renders.
    """
    rendering = rendering_of(spec)
    assert rendering is not None
    made_by = [rendering.name, rendering.version, fingerprint(module("renderings", rendering.name))]
    sources = [name.rpartition("/")[2] for name in (prepared_name(spec.data), partition_name(spec))]
    return f"{spec.data.dataset}/{_short([*made_by, spec.method.params, *sources])}"


def _short(value: object) -> str:
    return sha256(canonical_json(value))[:12]


@functools.cache
def fingerprint(*modules: str) -> str:
    """8 hexadecimals over the syntax trees of `modules` and what they import inside their own package and
    this one.
    """
    closure: set[str] = set()
    waiting = list(modules)
    while waiting:
        name = waiting.pop()
        if name not in closure and name not in DESCRIBE:
            closure.add(name)
            waiting.extend(_imports(name))
    return sha256("\n".join(f"{name} {_tree_hash(name)}" for name in sorted(closure)))[:8]


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
    """A syntax tree as text, without docstrings, positions and empty fields, so that Python versions agree on
    it.
    """
    if isinstance(tree, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and (
        ast.get_docstring(tree, clean=False) is not None
    ):
        tree.body = tree.body[1:]
    fields = []
    for field, value in ast.iter_fields(tree):
        if (value is None and not isinstance(tree, ast.Constant)) or value == []:
            continue
        if field in ("kind", "type_comment", "ctx"):
            continue
        items = value if isinstance(value, list) else [value]
        if isinstance(
            tree, ast.JoinedStr
        ):  # Python 3.12 ends some format specifications with an empty constant
            items = [item for item in items if not (isinstance(item, ast.Constant) and item.value == "")]
        text = ",".join(canonical_dump(item) if isinstance(item, ast.AST) else repr(item) for item in items)
        fields.append(f"{field}=[{text}]")
    return f"{type(tree).__name__}({' '.join(fields)})"
