"""Skeletons: files to start a method, a data set, an experiment, a metric or a figure from, each whole and
tested as it is written.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from fedshift.common.errors import FedshiftError, unknown
from fedshift.common.files import read_text, write_text
from fedshift.common.registry import names
from fedshift.storage.workspace import Workspace

NAME = re.compile(r"[a-z][a-z0-9_]*")
PATH = re.compile(r"[a-z][a-z0-9_]*(/[a-z0-9_]+)*")  # of an experiment
RESERVED = {*map(str.lower, keyword.kwlist), "base"}  # base.py is no plug-in


@dataclass(frozen=True)
class Entry:
    """A line that goes into a file that is there, before the first line that begins with `before`."""

    before: str
    line: str


@dataclass(frozen=True)
class Skeleton:
    """What one kind consists of; `{name}` stands for its name.

    files: path below the checkout -> its template
    entries: path -> the line that names it there
    kind: of the registry; "" for an experiment
    page: how it is made one's own; after: what to run then
    """

    files: Mapping[str, str]
    kind: str
    page: str
    after: tuple[str, ...]
    entries: Mapping[str, Entry] = field(default_factory=dict)


SKELETONS = {
    "method": Skeleton(
        files={
            "src/fedshift/methods/{name}.py": "method.py.j2",
            "tests/methods/test_{name}.py": "test_method.py.j2",
        },
        entries={
            "tests/contract/defaults.yaml": Entry("models:", "  {name}: {{mu: 0.01}}"),
            "experiments/unified/pacs.yaml": Entry("axes:", "  {name}:"),
        },
        kind="methods",
        page="docs/add-a-method.md",
        after=(
            "pytest tests/methods/test_{name}.py tests/contract -k '{name} or defaults'",
            "fedshift run {name} --data digits --target ink --rounds 3",
            "make docs",
        ),
    ),
    "dataset": Skeleton(
        files={
            "src/fedshift/data/datasets/{name}.py": "dataset.py.j2",
            "tests/data/test_{name}.py": "test_dataset.py.j2",
        },
        kind="datasets",
        page="docs/add-a-data-set.md",
        after=("pytest tests/data/test_{name}.py", "fedshift fetch {name} --from TREE", "make docs"),
    ),
    "experiment": Skeleton(
        files={"experiments/{name}.yaml": "experiment.yaml.j2"},
        kind="",
        page="docs/add-an-experiment.md",
        after=("fedshift plan {name}", "fedshift run {name}"),
    ),
    "metric": Skeleton(
        files={"src/fedshift/analysis/metrics/{name}.py": "metric.py.j2"},
        entries={
            "tests/analysis/test_metrics.py": Entry(
                '        "loss": 0.5,', '        "{name}": np.mean(confidence) - np.mean(y == predicted),'
            )
        },
        kind="metrics",
        page="docs/add-a-metric.md",
        after=(
            "pytest tests/analysis/test_metrics.py",
            "fedshift table EXPERIMENT --metric {name}.ood",
            "make docs",
        ),
    ),
    "figure": Skeleton(
        files={
            "src/fedshift/analysis/figures/{name}.py": "figure.py.j2",
            "tests/analysis/figures/test_{name}.py": "test_figure.py.j2",
        },
        kind="figures",
        page="docs/add-a-figure.md",
        after=("pytest tests/analysis/figures/test_{name}.py", "fedshift figure EXPERIMENT", "make docs"),
    ),
}


def write(workspace: Workspace, kind: str, name: str) -> list[Path]:
    """Write the skeleton of a kind into the checkout that `workspace` is; returns the files, new and changed.

    Raises FedshiftError for a name that is taken or cannot be one, and where there is no checkout; nothing is
    written then.
    """
    skeleton = SKELETONS[kind]
    _check(workspace, skeleton, kind, name)
    templates = Environment(
        loader=PackageLoader("fedshift.skeletons"), keep_trailing_newline=True, undefined=StrictUndefined
    )
    words = {"name": name, "class": "".join(word.capitalize() for word in name.split("_"))}
    texts = {
        workspace.root / path.format(name=name): templates.get_template(template).render(words)
        for path, template in skeleton.files.items()
    }
    for path in texts:
        if path.exists():
            raise FedshiftError(path, "is there already", "Choose another name.")
    for place, entry in skeleton.entries.items():
        texts[workspace.root / place] = _with(workspace.root / place, entry, name)
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, text)
    return [*texts]


def _check(workspace: Workspace, skeleton: Skeleton, kind: str, name: str) -> None:
    """Raise FedshiftError for a name or a folder that will not do."""
    if not (NAME if skeleton.kind else PATH).fullmatch(name) or (skeleton.kind and name in RESERVED):
        cure = "Begin with a letter; then small letters, digits and _. No keyword of Python, and not `base`."
        raise FedshiftError(f"fedshift new {kind}", f"'{name}' cannot be a name", cure)
    if skeleton.kind and name in names(skeleton.kind):
        raise FedshiftError(f"fedshift new {kind}", f"'{name}' is there already", "Choose another name.")
    folders = {(workspace.root / path).parent for path in skeleton.files if skeleton.kind}
    for folder in sorted(folders):
        if not folder.is_dir():
            cure = "Go to one, or make a package of your own: examples/README.md."
            raise FedshiftError(folder, "is not there: this is no checkout of fedshift", cure)


def _with(path: Path, entry: Entry, name: str) -> str:
    """A file's text with the entry in its place."""
    lines = read_text(path).splitlines(keepends=True)
    for place, line in enumerate(lines):
        if line.startswith(entry.before):
            return "".join([*lines[:place], entry.line.format(name=name) + "\n", *lines[place:]])
    raise unknown(path, "line", entry.before, ())
