"""RunSpec: the complete, typed, frozen description of one training run, its objects, and the names of derived
files.

Every field that can change the numbers is here, and nothing else. The defaults are *frozen*: a field at its
default is not part of the run id. A default therefore never changes once a run has been made with it. New
options get a default that means "as before". An experiment's other settings are in its protocol.
docs/settings.md lists all fields.

A run id is known before any data exist. It covers the RunSpec and the declared versions of engine, method,
model, data set and partition scheme. Results keep their names when code is refactored. If what code computes
changes, its `version` must be raised. The engine's version is `fedshift.identity.ENGINE_VERSION`; the golden
results in tests/golden detect changes.

A finished run records the fingerprint of its method and model, so that a change of their files is detected
(`fedshift.planning.settle`). Names of files that are quick to make (partitions, rendered images, evaluations)
also contain the fingerprint of their plug-ins.
"""

from __future__ import annotations

import functools
from typing import Any

from pydantic import Field, model_validator

from fedshift.common.files import canonical_json, sha256
from fedshift.common.registry import get, module
from fedshift.identity import ENGINE_VERSION, fingerprint
from fedshift.spec.block import Closed, closed
from fedshift.spec.settings import Data, Division, Evaluation, Federation, Local, Method, Model, short

__all__ = ["Closed", "Division", "Method", "Model", "RunSpec", "closed", "parse"]


class RunSpec(Division):
    """One training run."""

    data: Data = Field(description="The images, the held-out domain, and the network's input.")
    model: Model = Field(description="Architecture and initial weights.")
    method: Method = Field(description="The federated method and its hyper-parameters.")
    local: Local = Field(description="A client's training in one round.")
    federation: Federation = Field(description="Rounds, participation, and the weights of the average.")
    evaluation: Evaluation = Field(Evaluation(), description="When to evaluate, and which weights to save.")

    @model_validator(mode="after")
    def _pixels(self) -> RunSpec:
        px, most = self.data.input_px, self.data.prepare.px
        if px > most:
            raise ValueError(f"data.input_px {px} exceeds data.prepare.px {most}: pixels cannot be made up")
        return self

    @property
    def rendering(self) -> Any:
        """The rendering of the run's training images (fedshift.data.renderings); None for the prepared
        ones.
        """
        method = self.method.build()
        return None if method.rendering is None else get("renderings", method.rendering)(method.hp)

    def network(self, classes: int, plain: bool = False) -> Any:
        """The network (fedshift.models.base.Model) as changed by its method, without values.

        Equal networks are built once. Raises FedshiftError if the method does not fit the model.

        plain: before its method changes it
        """
        method = "" if plain else self.method.model_dump_json()
        return _network(self.model.model_dump_json(), method, classes, self.data.input_px)

    @property
    def versions(self) -> dict[str, int | str]:
        """The declared versions of the engine and of everything that a resolved spec names."""
        model, rendering = get("models", self.model.name), self.rendering
        return {
            "engine": ENGINE_VERSION,
            "method": get("methods", self.method.name).version,
            "model": model.version,
            "dataset": get("datasets", self.data.dataset).version,
            "partition": get("partitions", self.partition.scheme).version,
            **({"any_module": model.revision} if model.revision else {}),
            **({"rendering": rendering.version} if rendering else {}),
            **{name: get("modifiers", name).version for name in self.partition.modify},
            **({"weights": model.weights[self.model.init]} if self.model.init != "scratch" else {}),
        }

    @property
    def run_id(self) -> str:
        """16 hexadecimals over a resolved spec and the declared versions."""
        return self.id_under(self.versions)

    def id_under(self, versions: dict[str, int | str]) -> str:
        """The id of the run under these versions."""
        declared = {"spec": self.model_dump(mode="json", exclude_defaults=True), "versions": versions}
        return sha256(canonical_json(declared))[:16]

    @property
    def place(self) -> str:
        """`<data set>/<method>/<target>/seed<seed>`: the parent of the run's directory below results/runs."""
        return f"{self.data.dataset}/{self.method.name}/{self.data.target_name or 'none'}/seed{self.seed}"

    @property
    def run_name(self) -> str:
        """`<data set>/<method>/<target>/seed<seed>/<id>`: the run's directory below results/runs."""
        return f"{self.place}/{self.run_id}"

    @property
    def rendered_name(self) -> str:
        """`<data set>/<recipe>`: the folder, below data/rendered, of images that the run's method makes
        before training.

        The recipe covers their sources and how they are made. Only for a spec with a rendering.
        """
        rendering = self.rendering
        sources = [name.rpartition("/")[2] for name in (self.data.prepared_name, self.partition_name)]
        made_by = [rendering.name, rendering.version, fingerprint(module("renderings", rendering.name))]
        return f"{self.data.dataset}/{short([*made_by, self.method.params, *sources])}"

    @property
    def method_code(self) -> str:
        """8 hexadecimals over the files of the run's method and model."""
        modules = [module("methods", self.method.name), module("models", self.model.name)]
        rendering = self.rendering
        return fingerprint(*modules, *([module("renderings", rendering.name)] if rendering else []))


@functools.cache
def _network(model: str, method: str, classes: int, px: int) -> Any:
    from fedshift.common.tensors import shapes_only

    with shapes_only():
        network = Model.model_validate_json(model).build(classes, px)
        return Method.model_validate_json(method).build().model(network) if method else network


def parse(value: dict[str, Any], where: str) -> RunSpec:
    """Check `value` as a RunSpec. Raises FedshiftError that names `where`, the key and the nearest valid
    name.
    """
    return closed(RunSpec, value, where)
