"""Skeletons: whole and tested files to start a method, data set, experiment, metric or figure from."""

import keyword
import re
from pathlib import Path
from typing import NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined

from fedshift.common.errors import FedshiftError
from fedshift.common.files import write_text
from fedshift.common.registry import names
from fedshift.storage.workspace import Workspace

NAME = re.compile(r"[a-z][a-z0-9_]*")
PATH = re.compile(r"[a-z][a-z0-9_]*(/[a-z0-9_]+)*")  # of an experiment
RESERVED = {*map(str.lower, keyword.kwlist), "base"}  # base.py is no plug-in


class Skeleton(NamedTuple):
    """What one kind consists of; `{name}` stands for its name.

    kind: in the registry; "" for an experiment. files: path below the checkout -> its template.
    page: the documentation. after: what to run then. add: file that is there -> the line to add to it.
    """

    kind: str
    files: dict[str, str]
    page: str
    after: tuple[str, ...]
    add: dict[str, str] = {}


SKELETONS = {
    "method": Skeleton(
        "methods",
        {
            "src/fedshift/methods/{name}.py": "method.py.j2",
            "tests/methods/test_{name}.py": "test_method.py.j2",
        },
        "docs/add-a-method.md",
        (
            "pytest tests/methods/test_{name}.py tests/contract -k '{name} or defaults'",
            "fedshift run {name} --data digits --target ink --rounds 3",
            "make docs",
        ),
        {
            "tests/contract/defaults.yaml, below methods": "  {name}: {{mu: 0.01}}",
            "experiments/unified/pacs.yaml, below methods": "  {name}:",
        },
    ),
    "dataset": Skeleton(
        "datasets",
        {
            "src/fedshift/data/datasets/{name}.py": "dataset.py.j2",
            "tests/data/test_{name}.py": "test_dataset.py.j2",
        },
        "docs/add-a-data-set.md",
        ("pytest tests/data/test_{name}.py", "fedshift fetch {name} --from TREE", "make docs"),
    ),
    "experiment": Skeleton(
        "",
        {"experiments/{name}.yaml": "experiment.yaml.j2"},
        "docs/add-an-experiment.md",
        ("fedshift plan {name}", "fedshift run {name}"),
    ),
    "metric": Skeleton(
        "metrics",
        {"src/fedshift/analysis/metrics/{name}.py": "metric.py.j2"},
        "docs/add-a-metric.md",
        (
            "pytest tests/analysis/test_metrics.py",
            "fedshift table EXPERIMENT --metric {name}.ood",
            "make docs",
        ),
        {
            "tests/analysis/test_metrics.py, in `expected`": '        "{name}": '
            "np.mean(confidence) - np.mean(y == predicted),"
        },
    ),
    "figure": Skeleton(
        "figures",
        {
            "src/fedshift/analysis/figures/{name}.py": "figure.py.j2",
            "tests/analysis/figures/test_{name}.py": "test_figure.py.j2",
        },
        "docs/add-a-figure.md",
        ("pytest tests/analysis/figures/test_{name}.py", "fedshift figure EXPERIMENT", "make docs"),
    ),
}


def write(workspace: Workspace, what: str, name: str) -> list[Path]:
    """Write a skeleton into the checkout that `workspace` is; returns the files.

    Raises FedshiftError for a name that is taken or cannot be one, and where there is no checkout; nothing is
    written then.
    """
    kind, files, *_ = SKELETONS[what]
    if not (NAME if kind else PATH).fullmatch(name) or (kind and name in RESERVED):
        cure = "Begin with a letter; then small letters, digits and _. No keyword of Python, and not `base`."
        raise FedshiftError(f"fedshift new {what}", f"'{name}' cannot be a name", cure)
    if kind and name in names(kind):
        raise FedshiftError(f"fedshift new {what}", f"'{name}' is there already", "Choose another name.")
    templates = Environment(
        loader=PackageLoader("fedshift.skeletons"), keep_trailing_newline=True, undefined=StrictUndefined
    )
    words = {"name": name, "class": "".join(word.capitalize() for word in name.split("_"))}
    texts = {
        workspace.root / path.format(name=name): templates.get_template(template).render(words)
        for path, template in files.items()
    }
    for path in texts:
        if path.exists():
            raise FedshiftError(path, "is there already", "Choose another name.")
        if kind and not path.parent.is_dir():
            cure = "Go to one, or make a package of your own: examples/README.md."
            raise FedshiftError(path.parent, "is not there: this is no checkout of fedshift", cure)
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, text)
    return [*texts]
