"""What a plan is asked for: the keys of params.yaml. Standard library only: the Snakefile needs it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fedshift.errors import FedshiftError, nearest

DEVICES = ("cpu", "cuda")
RERUN = ("code", "version")


@dataclass(frozen=True)
class Request:
    """What a plan is for: experiments by name, seeds in a pack and how many of them train at once, the device that times are estimated for.

    rerun: "code" trains what the installed code has not; "version" takes a finished run that other code made of the same declaration.
    """

    experiments: tuple[str, ...]
    pack: int = 10
    device: str = "cpu"
    parallel: int = 1
    rerun: str = "code"

    @classmethod
    def of(cls, config: dict[str, Any], where: str = "params.yaml") -> Request:
        """Check a configuration. Raises FedshiftError for an unknown key or a value of the wrong kind."""
        valid = list(cls.__dataclass_fields__)
        for key in config:
            if key not in valid:
                raise FedshiftError(where, f"unknown key '{key}'", nearest(key, valid))
        names = config.get("experiments") or []
        if not isinstance(names, list | tuple) or not names:
            raise FedshiftError(
                where, "'experiments' names no experiment", "List names of files below experiments/."
            )
        request = cls(
            tuple(sorted({*map(str, names)})), **{key: config[key] for key in valid[1:] if key in config}
        )
        for key, meaning in (("pack", "seeds one job trains"), ("parallel", "runs of a job train at once")):
            if not isinstance(value := getattr(request, key), int) or value < 1:
                raise FedshiftError(
                    where, f"'{key}' cannot be {value!r}", f"It is how many {meaning}: 1 or more."
                )
        for key, known in (("device", DEVICES), ("rerun", RERUN)):
            if (chosen := getattr(request, key)) not in known:
                raise FedshiftError(where, f"'{key}' cannot be {chosen!r}", f"Valid: {', '.join(known)}.")
        return request
