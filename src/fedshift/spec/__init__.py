"""RunSpec: the complete, typed, frozen description of one training run, the objects that it describes, and
the names of what is made from it.

Every field that can change the numbers is here, and nothing else. The defaults are *frozen*: a field at its
default is left out of the run id, so a default is never changed once a run has been made with it; new
options are added with a default that means "as before". An experiment's other settings are in its protocol.
docs/settings.md lists all fields.

A run id is known before any data exist. It covers the RunSpec and the declared versions of engine, method,
model, data set and partition scheme. So results keep their names when code is tidied; a change of what code
computes needs a higher `version` (that of the engine is `fedshift.identity.ENGINE_VERSION`, and the golden
results in tests/golden guard it). A finished run notes the fingerprint of its method and model, so that a
change of their files is seen (`fedshift.planning.settle`). What is quickly made again - partitions, rendered
images, evaluations - is named by the fingerprint of its plug-ins, too.
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

    data: Data = Field(description="Which images, which domain is held out, and what the network sees.")
    model: Model = Field(description="Architecture and start.")
    method: Method = Field(description="Federated method and its hyper-parameters.")
    local: Local = Field(description="A client's training in one round.")
    federation: Federation = Field(
        description="Rounds, who takes part in them, and the weights of the average."
    )
    evaluation: Evaluation = Field(Evaluation(), description="When to evaluate, and which weights to keep.")

    @model_validator(mode="after")
    def _pixels(self) -> RunSpec:
        px, most = self.data.input_px, self.data.prepare.px
        if px > most:
            raise ValueError(f"data.input_px {px} exceeds data.prepare.px {most}: pixels cannot be made up")
        return self

    @property
    def rendering(self) -> Any:
        """What makes the run's training images (fedshift.data.renderings); None for the prepared ones."""
        method = self.method.build()
        return None if method.rendering is None else get("renderings", method.rendering)(method.hp)

    def network(self, classes: int) -> Any:
        """The network (fedshift.models.base.Model) as its method wants it, without values. Equal ones are
        made once. Raises FedshiftError where the method does not suit the model.
        """
        model, method = self.model.model_dump_json(), self.method.model_dump_json()
        return _network(model, method, classes, self.data.input_px)

    @property
    def versions(self) -> dict[str, int | str]:
        """The declared version of the engine, and of everything that a resolved spec names."""
        model, rendering = get("models", self.model.name), self.rendering
        return {
            "engine": ENGINE_VERSION,
            "method": get("methods", self.method.name).version,
            "model": model.version,
            "dataset": get("datasets", self.data.dataset).version,
            "partition": get("partitions", self.partition.scheme).version,
            **({"rendering": rendering.version} if rendering else {}),
            **{name: get("modifiers", name).version for name in self.partition.modify},
            **({"weights": model.weights[self.model.init]} if self.model.init != "scratch" else {}),
        }

    @property
    def run_id(self) -> str:
        """16 hexadecimals over what a resolved spec declares."""
        return self.id_under(self.versions)

    def id_under(self, versions: dict[str, int | str]) -> str:
        """The id of the run where these versions are declared."""
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
        before training. The recipe covers what they are made from and how. Only of a spec with a rendering.
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
        return Method.model_validate_json(method).build().model(network)


def parse(value: dict[str, Any], where: str) -> RunSpec:
    """Check `value` as a RunSpec. Raises FedshiftError that names `where`, the key and the nearest valid
    name.
    """
    return closed(RunSpec, value, where)
