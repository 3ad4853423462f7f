"""What is to be adapted how, before it is done: all of an adaptation's name that is known without the run."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from fedshift.build import method_of, model_of
from fedshift.errors import FedshiftError
from fedshift.files import canonical_json, sha256
from fedshift.identity import fingerprint
from fedshift.registry import get, module
from fedshift.resolve import params
from fedshift.spec import RunSpec
from fedshift.workspace import Workspace

NAMED_BY = ("run", "weights", "version", "code", "task")


@dataclass(frozen=True)
class Task:
    """An adaptation with its parameters, which of the kept weights it starts from, and on which images.

    images: `tested`, exactly those that the run's own accuracy on its held-out domain is of
        (partition.target_split), or `full_domain`.
    """

    adaptation: str
    params: dict[str, Any]
    selection: str = "best_first"
    images: Literal["tested", "full_domain"] = "tested"

    def declared(self, where: str = "fedshift adapt") -> dict[str, Any]:
        """Version and code of the adaptation, and this task with all its parameters. Raises FedshiftError for
        an unknown one.
        """
        kind = get("adaptations", self.adaptation, where)
        hp = params(kind, self.params, f"{where}: {self.adaptation}")
        return {
            "version": kind.version,
            "code": fingerprint("fedshift.training.adapt", module("adaptations", self.adaptation)),
            "task": {**asdict(self), "params": asdict(hp)},
        }

    def check(self, spec: RunSpec, where: str) -> None:
        """Raises FedshiftError for a task that nobody can do, and for a run that cannot be adapted, before it
        is trained.
        """
        import torch

        self.declared(where)
        one_domain(spec, where)
        if spec.evaluation.keep == "none":
            raise FedshiftError(where, "its runs keep no weights", "Set evaluation.keep: post_agg.")
        with torch.device("meta"):
            network = method_of(spec).model(model_of(spec, 2))
        get("adaptations", self.adaptation).check(network, where)


def one_domain(spec: RunSpec, where: object) -> str:
    """The held-out domain of a run. Raises FedshiftError where there is none, or two."""
    if not isinstance(spec.data.target, str):
        what = "holds out two domains" if spec.data.target else "holds out no domain to adapt to"
        raise FedshiftError(where, what, "Choose a run with one target.")
    return spec.data.target


def place(workspace: Workspace, told: dict[str, Any]) -> Path:
    """results/adapted/<digest>-<code>/<adaptation>-<key>.json; the key covers the run's weights, the task and
    the code.
    """
    key = sha256(canonical_json({name: told[name] for name in NAMED_BY}))[:16]
    return workspace.adapted(told["run"]) / f"{told['task']['adaptation']}-{key}.json"
