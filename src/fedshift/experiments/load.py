"""Reads experiment files, protocols and presets, by name."""

from __future__ import annotations

import functools
import re
from pathlib import Path, PurePosixPath

from fedshift.common.errors import FedshiftError, unknown
from fedshift.common.registry import names
from fedshift.common.yaml_file import read
from fedshift.experiments import tuning
from fedshift.experiments.protocols import Partial, Preset, Protocol, merge
from fedshift.experiments.schema import Experiment
from fedshift.experiments.space import Space
from fedshift.experiments.tuning import Trial
from fedshift.spec import closed
from fedshift.storage.workspace import TUNING, Workspace

NAMED = re.compile(r"\w+([ .+-]+\w+)*(/\w+([ .+-]+\w+)*)*")
ENDINGS = (
    TUNING,
    ".runs",
    ".statistics",
    ".evaluated",
    ".collected",
)  # of what lies beside an experiment's metrics


def available(workspace: Workspace) -> list[str]:
    """Names of all experiment files of the workspace, sorted."""
    folder = workspace.experiments
    return sorted(path.relative_to(folder).with_suffix("").as_posix() for path in folder.rglob("*.yaml"))


def _has(folder: Path, name: str) -> bool:
    """Whether there is such a file, asked without a listing: files are read for every printed number."""
    inside = Path(name).as_posix() == name and not {"..", "/"} & {*Path(name).parts}
    return inside and (folder / f"{name}.yaml").is_file()


def load(workspace: Workspace, name: str) -> Experiment:
    """Read experiments/<name>.yaml; `<name>.tuning` is its tuning. Raises FedshiftError that names the file,
    the key and the nearest valid name.
    """
    if _has(workspace.experiments, name):
        _check_name(workspace.experiments, name)
    base = name.removesuffix(TUNING)
    if base != name and _has(workspace.experiments, base):
        experiment = load(workspace, base)
        known = protocol(workspace, experiment.protocol)
        return tuning.stage(experiment, known, trials(workspace, experiment))
    if not _has(workspace.experiments, name):
        if inside := [other for other in available(workspace) if other.startswith(f"{name}/")]:
            what = "is a folder of experiments, and one of them is asked for"
            raise FedshiftError(workspace.experiments / name, what, f"Name one: {', '.join(inside)}.")
        raise unknown_experiment(workspace, name)
    path = workspace.experiments / f"{name}.yaml"
    declared, where = read(path), path.relative_to(workspace.root).as_posix()
    if "name" in declared:
        raise FedshiftError(where, "'name' is no key of the file", "Rename the file: its path is its name.")
    return closed(Experiment, {**declared, "name": name}, where)


def _check_name(folder: Path, name: str) -> None:
    """Raise FedshiftError where results of an experiment of this name would be taken for others."""
    where, cure = f"experiments/{name}.yaml", "Rename the file."
    if not NAMED.fullmatch(name):
        what = f"'{name}' cannot name an experiment"
        cure = "Rename the file: letters, digits, blanks and _ - + . between them."
        raise FedshiftError(where, what, cure)
    taken = [end for part in name.split("/") for end in ENDINGS if part.endswith(end)]
    if name == "all" or taken:
        raise FedshiftError(where, f"'{taken[0] if taken else name}' names other results", cure)
    inside = sorted((folder / name).rglob("*.yaml"))
    above = (folder / f"{path}.yaml" for path in PurePosixPath(name).parents if path.name)
    if other := next((path for path in (*inside, *above) if path.is_file()), None):
        other_name = other.relative_to(folder).with_suffix("").as_posix()
        what = f"results of '{name}' and of '{other_name}' would lie inside each other"
        raise FedshiftError(
            where, what, "Rename one of the two files, so that none is below the other's name."
        )


def unknown_experiment(workspace: Workspace, name: str) -> FedshiftError:
    """The error for a name that no experiment has; a path of its file may be meant."""
    known, stem = available(workspace), name.removesuffix(".yaml").removeprefix("experiments/")
    if stem != name and stem in known:
        return FedshiftError(workspace.experiments, f"unknown experiment '{name}'", f"Its name is '{stem}'.")
    return unknown(workspace.experiments, "experiment", name, known, "experiments")


def trials(workspace: Workspace, experiment: Experiment) -> list[Trial]:
    """The points that an experiment's tuning tries. Raises FedshiftError where it is not tuned."""
    known, read_preset = protocol(workspace, experiment.protocol), functools.partial(preset, workspace)
    return tuning.trials(experiment, known, lineage(workspace, experiment.protocol), read_preset)


def protocol(workspace: Workspace, name: str) -> Protocol:
    """Read reference/protocols/<name>.yaml, over the protocol that it is based on."""
    parts = [_protocol_file(workspace, base) for base in lineage(workspace, name)]
    return closed(Protocol, functools.reduce(merge, parts), f"reference/protocols/{name}.yaml")


def protocols(workspace: Workspace) -> list[str]:
    """Names of all protocols, sorted."""
    return sorted(path.stem for path in (workspace.reference / "protocols").glob("*.yaml"))


def _protocol_file(workspace: Workspace, name: str) -> Partial:
    folder = workspace.reference / "protocols"
    if not _has(folder, name):
        raise unknown(folder, "protocol", name, protocols(workspace))
    return read(folder / f"{name}.yaml")


def printed_grid(workspace: Workspace, name: str, method: str) -> dict[str, Space]:
    """What a paper says that it searched for a method under its protocol, without guesses: dotted key ->
    values.
    """
    order = lineage(workspace, name)
    spaces = {**protocol(workspace, name).grid, **preset(workspace, method).searched(order)}
    return {key: space for key, space in spaces.items() if not space.guess}


def lineage(workspace: Workspace, name: str) -> list[str]:
    """A protocol after those that it is based on."""
    bases = [name]
    while base := _protocol_file(workspace, bases[0]).get("base", ""):
        if base in bases:
            raise FedshiftError(
                f"reference/protocols/{base}.yaml", "is based on itself", "Remove one `base:` on the way."
            )
        bases.insert(0, base)
    return bases


def preset(workspace: Workspace, method: str) -> Preset:
    """Read reference/presets/<method>.yaml, empty where there is none. Raises FedshiftError for a protocol
    or data set that does not exist.
    """
    path = workspace.reference / "presets" / f"{method}.yaml"
    where = path.relative_to(workspace.root).as_posix()
    loaded = closed(Preset, read(path), where) if path.exists() else Preset()
    for name in loaded.protocols:
        if name not in protocols(workspace):
            raise unknown(where, "protocol", name, [*protocols(workspace), *Preset.model_fields])
    for name in loaded.grid:
        if name not in (valid := ["*", *protocols(workspace)]):
            raise unknown(f"{where}: grid", "protocol", name, valid)
    for name, places in (*loaded.protocols.items(), *loaded.presets.items()):
        for dataset in places:
            if dataset not in (known := ["*", *names("datasets")]):
                raise unknown(f"{where}: {name}", "data set", dataset, known, "datasets")
    return loaded
