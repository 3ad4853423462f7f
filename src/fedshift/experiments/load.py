"""Load experiment files by name."""

import re
from pathlib import Path, PurePosixPath

from fedshift.common.errors import FedshiftError, unknown
from fedshift.common.yaml_file import read
from fedshift.experiments.protocols import has
from fedshift.experiments.schema import Experiment
from fedshift.experiments.tuning import stage
from fedshift.spec import closed
from fedshift.storage.workspace import TUNING, Workspace

NAMED = re.compile(r"\w+([ .+-]+\w+)*(/\w+([ .+-]+\w+)*)*")
# Of files next to an experiment's metrics.
ENDINGS = (TUNING, ".runs", ".statistics", ".evaluated", ".collected")


def available(workspace: Workspace) -> list[str]:
    """Names of all experiment files of the workspace, sorted."""
    folder = workspace.experiments
    return sorted(path.relative_to(folder).with_suffix("").as_posix() for path in folder.rglob("*.yaml"))


def load(workspace: Workspace, name: str) -> Experiment:
    """Read experiments/<name>.yaml; `<name>.tuning` is its tuning.

    Raises FedshiftError that names the file, the key and the nearest valid name.
    """
    folder, base = workspace.experiments, name.removesuffix(TUNING)
    if not has(folder, name):
        if base != name and has(folder, base):
            return stage(workspace, load(workspace, base))
        if inside := [other for other in available(workspace) if other.startswith(f"{name}/")]:
            what = "is a folder of experiments, not an experiment"
            raise FedshiftError(folder / name, what, f"Name one: {', '.join(inside)}.")
        raise unknown_experiment(workspace, name)
    check_name(folder, name)
    declared, where = read(folder / f"{name}.yaml"), f"experiments/{name}.yaml"
    if "name" in declared:
        cure = "Rename the file: its path is its name."
        raise FedshiftError(where, "'name' is not a key of the file", cure)
    return closed(Experiment, {**declared, "name": name}, where)


def check_name(folder: Path, name: str) -> None:
    """Raise FedshiftError for a name whose results could be confused with others."""
    where, cure = f"experiments/{name}.yaml", "Rename it."
    if not NAMED.fullmatch(name):
        cure = "Rename it: letters, digits, blanks and _ - + . between them."
        raise FedshiftError(where, f"'{name}' cannot name an experiment", cure)
    taken = [end for part in name.split("/") for end in ENDINGS if part.endswith(end)]
    if name == "all" or taken:
        raise FedshiftError(where, f"'{taken[0] if taken else name}' names other results", cure)
    inside = sorted((folder / name).rglob("*.yaml"))
    above = (folder / f"{path}.yaml" for path in PurePosixPath(name).parents if path.name)
    if other := next((path for path in (*inside, *above) if path.is_file()), None):
        other_name = other.relative_to(folder).with_suffix("").as_posix()
        what = f"results of '{name}' and of '{other_name}' would lie inside each other"
        raise FedshiftError(where, what, "Rename one file, so that neither is below the other's name.")


def unknown_experiment(workspace: Workspace, name: str) -> FedshiftError:
    """The error for an unknown experiment, with a hint if the name is the path of its file."""
    known, stem = available(workspace), name.removesuffix(".yaml").removeprefix("experiments/")
    if stem != name and stem in known:
        return FedshiftError(workspace.experiments, f"unknown experiment '{name}'", f"Its name is '{stem}'.")
    return unknown(workspace.experiments, "experiment", name, known, "experiments")
