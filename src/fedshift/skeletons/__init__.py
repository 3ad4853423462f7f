"""Skeletons: complete, tested files from which to start a method, model, data set, experiment and so on.

They are written into own/ of the project folder, where the registry finds them by name; nothing else changes.
"""

import keyword
import re
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from fedshift.common.errors import FedshiftError
from fedshift.common.files import write_text
from fedshift.common.registry import OWN, forget, names
from fedshift.storage.workspace import Workspace

NAME = re.compile(r"[a-z][a-z0-9_]*")
PATH = re.compile(r"[a-z][a-z0-9_]*(/[a-z0-9_]+)*")  # of an experiment
RESERVED = {*map(str.lower, keyword.kwlist), "base"}  # base.py is not a plug-in


TRAIN, SMALL = "fedshift train", "--data digits --target ink --rounds 3"
PAGE = "docs/extend.md"
# Kind -> its documentation, and the commands to run next, with {name} for its name.
SKELETONS = {
    "method": ("docs/add-a-method.md", ("{test} tests/contract -k {name}", f"{TRAIN} {{name}} {SMALL}")),
    "model": (PAGE, ("{test}", f"{TRAIN} fedavg {SMALL} --set model.name={{name}}")),
    "dataset": (PAGE, ("{test}", "fedshift fetch {name} --from TREE")),
    "partition": (
        "docs/partitions.md",
        ("{test}", f"{TRAIN} fedavg {SMALL} --set partition.scheme={{name}}"),
    ),
    "experiment": ("docs/write-an-experiment.md", ("fedshift plan {name}", "fedshift run {name}")),
    "evaluation": (PAGE, ("{test}", "fedshift evaluate RUN {name}")),
    "metric": (PAGE, ("{test}", "fedshift table EXPERIMENT --metric {name}.ood")),
    "figure": (PAGE, ("{test}", "fedshift figure EXPERIMENT")),
}


def write(workspace: Workspace, what: str, name: str) -> list[Path]:
    """Write a skeleton into the project folder; returns the files.

    Raises FedshiftError for a name that exists or is invalid; nothing is written then.
    """
    kind = "" if what == "experiment" else f"{what}s"  # in the registry
    if not (NAME if kind else PATH).fullmatch(name) or (kind and name in RESERVED):
        cure = "Begin with a letter; then small letters, digits and _. No keyword of Python, and not `base`."
        raise FedshiftError(f"fedshift new {what}", f"'{name}' cannot be a name", cure)
    if kind and name in names(kind):
        raise FedshiftError(f"fedshift new {what}", f"'{name}' is there already", "Choose another name.")
    templates = Environment(
        loader=PackageLoader("fedshift.skeletons"), keep_trailing_newline=True, undefined=StrictUndefined
    )
    words = {"name": name, "class": "".join(word.capitalize() for word in name.split("_"))}
    files = {f"experiments/{name}.yaml": "experiment.yaml.j2"}
    if kind:
        files = {
            f"{OWN}/{kind}/{name}.py": f"{what}.py.j2",
            f"{OWN}/tests/test_{name}.py": f"test_{what}.py.j2",
        }
    texts = {
        workspace.root / path: templates.get_template(template).render(words)
        for path, template in files.items()
    }
    for path in texts:
        if path.exists():
            raise FedshiftError(path, "is there already", "Choose another name.")
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, text)
    forget()
    return [*texts]
