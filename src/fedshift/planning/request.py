"""The request of a plan: the keys of params.yaml. No heavy imports: the Snakefile needs it.

The model of a small file (this one, slurm/cluster.yaml) is a frozen dataclass with fields made by `key`;
docs/generate reads their metadata as pydantic does.
"""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from fedshift.common.errors import FedshiftError, nearest
from fedshift.common.files import read_text
from fedshift.storage.workspace import Workspace


def key(description: str, default: Any = dataclasses.MISSING, **limits: int) -> Any:
    """A field of a file's model.

    - description: its meaning
    - default: its default; a key without one is required
    - limits: its least and greatest value, `ge` and `le` (by default 1 and a million)
    """
    return dataclasses.field(default=default, metadata={"description": description, **limits})


def check(model: type, config: dict[str, Any], where: str) -> None:
    """Raise FedshiftError at `where` for an unknown key, and for a value that its key does not allow."""
    fields = {field.name: field for field in dataclasses.fields(model)}
    hints = typing.get_type_hints(model)
    for name, value in config.items():
        if name not in fields:
            raise FedshiftError(where, f"unknown key '{name}'", nearest(name, fields))
        what, description = f"'{name}' cannot be {value!r}", fields[name].metadata["description"]
        least, most = (fields[name].metadata.get(end, limit) for end, limit in (("ge", 1), ("le", 1_000_000)))
        if hints[name] is int and (type(value) is not int or not least <= value <= most):
            raise FedshiftError(
                where, what, f"{description} A whole number, {least} or more, at most {most:,}."
            )
        if typing.get_origin(hints[name]) is Literal and value not in typing.get_args(hints[name]):
            raise FedshiftError(where, what, f"Valid: {', '.join(typing.get_args(hints[name]))}.")
        if hints[name] == str | None and not isinstance(value, str | None):
            raise FedshiftError(where, what, f"{description} Write it as text, in quotes.")


@dataclass(frozen=True)
class Request:
    """The experiments of a plan, and how they are trained."""

    experiments: tuple[str, ...] = key(
        "Experiments to reproduce: files below experiments/ without suffix, or folders. Folders leave out "
        "tuned experiments whose settings are not chosen yet (docs/tuning.md)."
    )
    pack: int = key("Maximum number of seeds of one configuration per job (a pack).", 10, ge=1)
    device: Literal["cpu", "cuda"] = key(
        "Device for which training time is estimated; with `cuda`, jobs request a GPU.", "cpu"
    )
    parallel: int = key("Number of runs that a job trains at the same time.", 1, ge=1)
    hours: int = key(
        "Maximum hours that a job requests. Packs are divided to fit; a longer run resumes in the next job.",
        24,
        ge=1,
        le=365 * 24,
    )
    minutes: int = key(
        "Minimum minutes of training per job; shorter packs of the same method and data set are grouped.",
        0,
        ge=0,
    )
    graph: Literal["auto", "off"] = key(
        "`auto` replays training steps as CUDA graphs if the method allows it (docs/performance.md). "
        'Write `"off"` in quotes.',
        "off",
    )
    sets: Mapping[str, Sequence[str]] | None = key(
        "Names for sets of experiments, accepted like names of experiments: set -> files below experiments/ "
        "without suffix, folders, or patterns (`hfedf/table*`).",
        None,
    )

    @classmethod
    def of(cls, config: dict[str, Any], root: Path, where: str = "params.yaml") -> Request:
        """Check a configuration of the project at `root`.

        A folder below experiments/ means all experiments in it; a set means its members. Raises FedshiftError
        for an unknown key, a value of the wrong kind, a pattern that no file can match, and a configuration
        without experiments.
        """
        check(cls, config, where)
        names = config.get("experiments") or []
        if not names or not _are_names(names):
            raise FedshiftError(
                where, "'experiments' names no experiment", "List names of files below experiments/."
            )
        sets = config.get("sets") or {}
        if not isinstance(sets, dict) or not all(map(_are_names, sets.values())):
            raise FedshiftError(
                where, "'sets' is not a list of experiments by name", "Write `sets: {night: [demo]}`."
            )
        if both := [name for name in sets if (root / "experiments" / f"{name}.yaml").is_file()]:
            what = f"the set '{both[0]}' has the name of an experiment"
            raise FedshiftError(where, what, "Give the set another name.")
        members = [member for name in names for member in sets.get(name, [name])]
        files = {file for name in members for file in _experiments(root, name)}
        if not files:
            what = f"'experiments' names none: {', '.join(names)} has no member"
            raise FedshiftError(where, what, "List names of files below experiments/ in `sets`.")
        return cls(**{**config, "experiments": tuple(sorted(files)), "sets": None})


DEVICES: tuple[str, ...] = typing.get_args(typing.get_type_hints(Request)["device"])
GRAPH: tuple[str, ...] = typing.get_args(typing.get_type_hints(Request)["graph"])
LONGEST = 100  # letters of a name that a file can have


def _are_names(members: object) -> bool:
    return isinstance(members, list | tuple) and all(isinstance(name, str) for name in members)


def _experiments(root: Path, name: str) -> list[str]:
    """The experiment of this name, else those in the folder or of the pattern; an unknown name unchanged."""
    folder = root / "experiments"
    if not 0 < len(name) <= LONGEST or "\0" in name or name.startswith("/") or ".." in name.split("/"):
        return [name]
    if any("**" in part and part != "**" for part in f"{name}.yaml".split("/")):
        cure = "`**` must be between slashes: `**/table*`. All in a folder: the folder's name alone."
        raise FedshiftError(folder, f"'{name}' is not a pattern", cure)
    if {*"*?["} & {*name}:
        inside = [*folder.glob(f"{name}.yaml")]
    elif not (folder / f"{name}.yaml").is_file() and (folder / name).is_dir():
        inside = [*(folder / name).rglob("*.yaml")]
    else:
        return [name]
    names = [path.relative_to(folder).with_suffix("").as_posix() for path in inside if path.is_file()]

    def is_chosen(found: str) -> bool:
        text = read_text(folder / f"{found}.yaml")
        return "\ntune:" not in f"\n{text}" or Workspace(root).tuned(found).is_file()

    return [*filter(is_chosen, names)] or [name]
