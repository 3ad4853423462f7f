"""The request of a plan: the keys of params.yaml."""

from __future__ import annotations

import fnmatch
import typing
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from fedshift.common.errors import FedshiftError
from fedshift.experiments.load import available
from fedshift.spec.block import MOST, Closed, closed
from fedshift.storage.workspace import Workspace


class Request(Closed):
    """The experiments of a plan, and how they are trained."""

    experiments: tuple[str, ...] = Field(
        description="Experiments to reproduce: files below experiments/ without suffix; a folder stands for "
        "all in it, except tuned ones whose settings are not chosen (docs/tuning.md)."
    )
    pack: int = Field(10, ge=1, le=MOST, description="Seeds of one configuration that one job trains.")
    device: Literal["cpu", "cuda"] = Field(
        "cpu", description="What training times are estimated for, and whether a job asks for a GPU."
    )
    parallel: int = Field(1, ge=1, le=MOST, description="Runs of a job that train at once.")
    hours: int = Field(
        24,
        ge=1,
        le=365 * 24,
        description="The most hours that a job asks a cluster for: packs are cut by it; a longer run goes on "
        "job after job.",
    )
    minutes: int = Field(
        0,
        ge=0,
        le=MOST,
        description="The least minutes of training that are worth a job: what lasts less shares one with "
        "other configurations of its method and data set.",
    )
    graph: Literal["auto", "off"] = Field(
        "off",
        description="Whether a GPU replays training steps as CUDA graphs where a method allows it "
        '(docs/performance.md). Write `"off"` in quotes.',
    )
    sets: dict[str, list[str]] | None = Field(
        None,
        description="Names for several experiments, which stand wherever an experiment's may: set -> files "
        "below experiments/ without suffix, folders, or patterns (`hfedf/table*`).",
    )

    @classmethod
    def of(cls, config: dict[str, Any], root: Path, where: str = "params.yaml") -> Request:
        """Check a configuration of the project at `root`.

        A folder below experiments/ means all experiments in it; a set means its members. Raises FedshiftError
        for an unknown key, a value of the wrong kind, and a configuration without experiments.
        """
        request = closed(cls, {"experiments": (), **config}, where)
        sets = request.sets or {}
        members = [member for name in request.experiments for member in sets.get(name, [name])]
        files = {file for name in members for file in _experiments(root, name)}
        if not files:
            what, cure = "'experiments' names no experiment", "List names of files below experiments/."
            raise FedshiftError(where, what, cure)
        return request.model_copy(update={"experiments": tuple(sorted(files)), "sets": None})


DEVICES: tuple[str, ...] = typing.get_args(Request.model_fields["device"].annotation)
GRAPH: tuple[str, ...] = typing.get_args(Request.model_fields["graph"].annotation)


def _experiments(root: Path, name: str) -> list[str]:
    """The experiment of this name, else those in the folder of this name or that match the pattern.

    An unknown name is returned unchanged; reading it raises the error.
    """
    workspace = Workspace(root)
    known = available(workspace)
    inside = fnmatch.filter(known, name) or [one for one in known if one.startswith(f"{name}/")]

    def is_chosen(found: str) -> bool:
        text = (workspace.experiments / f"{found}.yaml").read_text(encoding="utf-8", errors="replace")
        return "\ntune:" not in text or workspace.tuned(found).is_file()

    return [name] if name in known else [found for found in inside if is_chosen(found)] or [name]
