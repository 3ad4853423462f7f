"""Reads experiment files, protocols and presets, by name."""

from __future__ import annotations

import functools
import json
import math
from pathlib import Path
from typing import Any

import yaml

from fedshift.common.errors import FedshiftError, unknown
from fedshift.common.registry import names
from fedshift.experiments import tuning
from fedshift.experiments.protocols import Partial, Preset, Protocol, merge
from fedshift.experiments.schema import Experiment
from fedshift.experiments.space import Space
from fedshift.experiments.tuning import Trial
from fedshift.spec import closed
from fedshift.spec.block import MOST
from fedshift.storage.workspace import TUNING, Workspace


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
    base = name.removesuffix(TUNING)
    if base != name and _has(workspace.experiments, base):
        experiment = load(workspace, base)
        known = protocol(workspace, experiment.protocol)
        return tuning.stage(experiment, known, trials(workspace, experiment))
    if not _has(workspace.experiments, name):
        if inside := [other for other in available(workspace) if other.startswith(f"{name}/")]:
            what = "is a folder of experiments, and one of them is asked for"
            raise FedshiftError(workspace.experiments / name, what, f"Name one: {', '.join(inside)}.")
        raise unknown(workspace.experiments, "experiment", name, available(workspace))
    path = workspace.experiments / f"{name}.yaml"
    declared, where = read(path), path.relative_to(workspace.root).as_posix()
    if "name" in declared:
        raise FedshiftError(where, "'name' is no key of the file", "Rename the file: its path is its name.")
    return closed(Experiment, {**declared, "name": name}, where)


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
                raise unknown(f"{where}: {name}", "data set", dataset, known)
    return loaded


class _Once(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # C where PyYAML has it
    """YAML in which a mapping has each key once; PyYAML keeps the last one silently."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            if key.value in seen:
                raise yaml.MarkedYAMLError(
                    problem=f"'{key.value}' stands here twice", problem_mark=key.start_mark
                )
            seen.add(key.value)
        return dict(super().construct_mapping(node, deep))


@functools.lru_cache(512)
def _parsed(text: str, path: Path) -> str:
    """YAML as JSON, of which each reader gets values of its own: an experiment reads its protocol and presets
    once for each method, and a scorecard them all a hundred times.
    """
    value = yaml.load(text, _Once)
    _check_plain(value, path)
    return json.dumps(value)


def _check_plain(value: Any, path: Path) -> None:
    """Raise FedshiftError for what JSON has no word for - a key that is no text, a date, an infinite number -
    and where aliases make a small file large.
    """
    waiting, seen = [value], 0
    while waiting:
        part, seen = waiting.pop(), seen + 1
        cure = ""
        if isinstance(part, dict):
            waiting += part.values()
            if odd := [key for key in part if not isinstance(key, str)]:
                what, cure = f"the key {odd[0]!r} is no text", "Write it in quotes."
        elif isinstance(part, list):
            waiting += part
        elif isinstance(part, float) and not math.isfinite(part):
            what, cure = f"{part} is no number", "Write a finite one."
        elif not isinstance(part, str | int | float | None):
            what, cure = f"{part!r} is neither text nor number", "Write it in quotes."
        if seen + len(waiting) > MOST:
            what, cure = f"holds more than {MOST:,} values", "Are its aliases a circle?"
        if cure:
            raise FedshiftError(path, what, cure)


def read(path: Path) -> Partial:
    """The keys of a YAML file, none of an empty one. Raises FedshiftError where it cannot be read so."""
    try:
        value = json.loads(_parsed(path.read_text(encoding="utf-8"), path))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise FedshiftError(path, f"is not YAML: {error}", "Mend the line that it names.") from None
    except (RecursionError, ValueError) as error:  # YAML's words that Python has no value for: 2001-02-30
        raise FedshiftError(path, f"cannot be read: {error}", "Mend it: is it nested too deeply?") from None
    if not isinstance(value, dict | None):
        raise FedshiftError(path, "holds no keys", "Write lines `key: value`; see docs/add-an-experiment.md.")
    return value or {}
