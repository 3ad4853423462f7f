"""What a plan is asked for: the keys of params.yaml. Standard library only: the Snakefile needs it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from fedshift.errors import FedshiftError
from fedshift.planning.keys import check, choices, key


@dataclass(frozen=True)
class Request:
    """What a plan is for."""

    experiments: tuple[str, ...] = key(
        "Experiments to reproduce: files below experiments/ without suffix; a folder stands for all in it."
    )
    pack: int = key("Seeds of one configuration that one job trains.", 10, ge=1)
    device: Literal["cpu", "cuda"] = key(
        "What training times are estimated for, and whether a job asks for a GPU.", "cpu"
    )
    parallel: int = key("Runs of a job that train at once.", 1, ge=1)
    rerun: Literal["code", "version"] = key(
        "Finished runs that other code made of the same declaration: `code` trains them again, "
        "`version` takes them.",
        "code",
    )
    hours: int = key(
        "The most hours that a job asks a cluster for: packs are cut by it; a longer run goes on "
        "job after job.",
        24,
        ge=1,
    )

    @classmethod
    def of(cls, config: dict[str, Any], root: Path, where: str = "params.yaml") -> Request:
        """Check a configuration of the project at `root`; a folder below experiments/ stands for all in it.

        Raises FedshiftError for an unknown key or a value of the wrong kind.
        """
        check(cls, config, where)
        names = config.get("experiments") or []
        if not isinstance(names, list | tuple) or not names:
            raise FedshiftError(
                where, "'experiments' names no experiment", "List names of files below experiments/."
            )
        files = {file for name in map(str, names) for file in _experiments(root, name)}
        return cls(**{**config, "experiments": tuple(sorted(files))})


DEVICES = choices(Request, "device")
RERUN = choices(Request, "rerun")


def _experiments(root: Path, name: str) -> list[str]:
    """The experiment of this name, else those in the folder of this name; one that is neither is refused by
    who reads it.
    """
    folder = root / "experiments"
    if not (folder / f"{name}.yaml").is_file() and (folder / name).is_dir():
        inside = [path.relative_to(folder).with_suffix("") for path in (folder / name).rglob("*.yaml")]
        return [path.as_posix() for path in inside] or [name]
    return [name]
