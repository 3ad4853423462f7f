"""RunSpec: the complete, typed, frozen description of one training run.

Every field that can change the numbers is here, and nothing else. The defaults are *frozen*: a field at its
default is left out of the digest, so a default is never changed once a run has been made with it; new
options are added with a default that means "as before". What an experiment wants differently it says in its
protocol. docs/settings.md lists all fields.
"""

from __future__ import annotations

from typing import Any

from pydantic import Field, model_validator

from fedshift.spec.block import Closed, closed
from fedshift.spec.data import Data, Division, Partition, Prepare, Source
from fedshift.spec.training import Evaluation, Federation, Local, Method, Model, Schedule

__all__ = [
    "Closed",
    "Data",
    "Division",
    "Evaluation",
    "Federation",
    "Local",
    "Method",
    "Model",
    "Partition",
    "Prepare",
    "RunSpec",
    "Schedule",
    "Source",
    "closed",
    "parse",
]


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
        if self.data.input_px > self.data.prepare.px:
            raise ValueError(
                f"data.input_px {self.data.input_px} exceeds data.prepare.px {self.data.prepare.px}: "
                "pixels cannot be made up"
            )
        return self


def parse(value: dict[str, Any], where: str) -> RunSpec:
    """Check `value` as a RunSpec. Raises FedshiftError that names `where`, the key and the nearest valid
    name.
    """
    return closed(RunSpec, value, where)
