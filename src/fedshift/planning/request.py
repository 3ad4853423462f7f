"""What a plan is asked for: the keys of params.yaml. Standard library only: the Snakefile needs it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedshift.errors import FedshiftError, nearest

DEVICES = ("cpu", "cuda")
RERUN = ("code", "version")
COUNTED = {
    "pack": "seeds one job trains",
    "parallel": "runs of a job train at once",
    "hours": "hours one job may ask for",
}


@dataclass(frozen=True)
class Request:
    """What a plan is for: experiments by name, seeds in a pack and how many of them train at once, the device that times are estimated for.

    rerun: "code" trains what the installed code has not; "version" takes a finished run that other code made of the same declaration;
    hours: packs are cut so that no job asks for more; a run that is estimated longer is a pack alone, and goes on job after job.
    """

    experiments: tuple[str, ...]
    pack: int = 10
    device: str = "cpu"
    parallel: int = 1
    rerun: str = "code"
    hours: int = 24

    @classmethod
    def of(cls, config: dict[str, Any], root: Path, where: str = "params.yaml") -> Request:
        """Check a configuration of the project at `root`; a folder below experiments/ stands for all in it.

        Raises FedshiftError for an unknown key or a value of the wrong kind.
        """
        valid = list(cls.__dataclass_fields__)
        for key in config:
            if key not in valid:
                raise FedshiftError(where, f"unknown key '{key}'", nearest(key, valid))
        names = config.get("experiments") or []
        if not isinstance(names, list | tuple) or not names:
            raise FedshiftError(
                where, "'experiments' names no experiment", "List names of files below experiments/."
            )
        every = {one for name in map(str, names) for one in _experiments(root, name)}
        request = cls(tuple(sorted(every)), **{key: config[key] for key in valid[1:] if key in config})
        for key, meaning in COUNTED.items():
            if type(value := getattr(request, key)) is not int or value < 1:
                raise FedshiftError(
                    where, f"'{key}' cannot be {value!r}", f"It is how many {meaning}: 1 or more."
                )
        for key, known in (("device", DEVICES), ("rerun", RERUN)):
            if (chosen := getattr(request, key)) not in known:
                raise FedshiftError(where, f"'{key}' cannot be {chosen!r}", f"Valid: {', '.join(known)}.")
        return request


def _experiments(root: Path, name: str) -> list[str]:
    """The experiment of this name, else those in the folder of this name; one that is neither is refused by who reads it."""
    folder = root / "experiments"
    if not (folder / f"{name}.yaml").is_file() and (folder / name).is_dir():
        inside = [path.relative_to(folder).with_suffix("") for path in (folder / name).rglob("*.yaml")]
        return [path.as_posix() for path in inside] or [name]
    return [name]
