"""The training of a run: network, method, a client's optimisation in one round, the federation, and what is
evaluated.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from fedshift.common.registry import get
from fedshift.spec.block import MOST, Closed, params


class Model(Closed):
    """Architecture and start."""

    name: str = Field(description="Name of the network; `fedshift list models` names all.")
    params: dict[str, Any] = Field({}, description="Parameters of the network.")
    init: Literal["scratch", "imagenet"] = Field(
        "scratch",
        description="Start: `scratch`, drawn from the run's seed and each tensor's name; `imagenet`, the "
        "first weights that torchvision published (docs/add-a-model.md).",
    )

    def build(self, classes: int, px: int) -> Any:
        """A new network (fedshift.models.base.Model) for `classes` classes and images of `px` pixels, before
        its method changes it, on torch's default device. Raises FedshiftError where `px` is too small.
        """
        return get("models", self.name)(classes, px, **self.params)


class Method(Closed):
    """Federated method and its hyper-parameters (those of its `Params`)."""

    name: str = Field(description="Name of the method; docs/methods.md describes all.")
    params: dict[str, Any] = Field({}, description="Hyper-parameters of the method.")

    def build(self) -> Any:
        """A new fedshift.federation.method.Method with these parameters. What a method declares may depend on
        them, so ask the object and not its class.
        """
        kind = get("methods", self.name)
        return kind(params(kind, self.params))

    def weights(self, protocol: str) -> str:
        """How the method weighs clients: "size" or "uniform", which it or the protocol declares, or "own"."""
        method = self.build()
        return "own" if method.weighs else method.weights or protocol


class Schedule(Closed):
    """Learning rate over rounds or local epochs u = 0..U-1."""

    kind: Literal["constant", "exponential", "step", "cosine"] = Field(
        "constant",
        description="`constant`: lr; `exponential`: lr * gamma^u; `step`: lr * gamma^(u // step); `cosine`: "
        "lr * (1 + cos(pi u / U)) / 2.",
    )
    unit: Literal["round", "epoch"] = Field(
        "round", description="What u counts: rounds, or local epochs over all rounds."
    )
    gamma: float = Field(1.0, gt=0, le=1, description="Decay factor of `exponential` and `step`.")
    step: int = Field(1, ge=1, le=MOST, description="Units between two decays of `step`.")


class Local(Closed):
    """A client's training in one round."""

    batch: int = Field(ge=1, le=MOST, description="Images in a batch; a client with fewer takes all it has.")
    batch_rule: Literal["wrap", "drop_last", "keep_last"] = Field(
        "keep_last",
        description="What becomes of the last n mod B images of an epoch: `keep_last` trains on the smaller "
        "batch (but for a single image before batch normalisation), `drop_last` leaves them out, `wrap` "
        "fills the batch from the next shuffled pass.",
    )
    epochs: int = Field(
        1, ge=1, le=MOST, description="Passes over the client's training images in one round."
    )
    optimizer: Literal["sgd", "adam"] = Field("sgd", description="The clients' optimiser, torch's.")
    lr: float = Field(ge=0, description="Learning rate before its schedule.")
    momentum: float = Field(0.0, ge=0, lt=1, description="Momentum of `sgd`; adam has its own.")
    weight_decay: float = Field(
        0.0, ge=0, description="Factor of the weights that is added to their gradient, in both optimisers."
    )
    optimizer_state: Literal["reset", "persist"] = Field(
        "reset",
        description="Whether a client's optimiser starts anew in each round or goes on where its last one "
        "ended.",
    )
    clip: float | None = Field(
        None,
        gt=0,
        description="The largest norm of the whole gradient, above which it is scaled down; null for none.",
    )
    schedule: Schedule = Field(Schedule(), description="The learning rate over time.")
    precision: Literal["fp32", "tf32", "bf16"] = Field(
        "fp32",
        description="Arithmetic: `fp32`; `tf32`, on CUDA convolutions and matrix products of fp32 tensors "
        "by their first 10 bits of mantissa; `bf16`, torch's autocast.",
    )

    @model_validator(mode="after")
    def _momentum(self) -> Local:
        if self.momentum and self.optimizer != "sgd":
            raise ValueError("momentum belongs to optimizer 'sgd'; adam has its own")
        return self


class Federation(Closed):
    """Rounds, who takes part in them, and the weights of the average."""

    rounds: int = Field(ge=0, le=MOST, description="Communication rounds.")
    participation: float = Field(
        1.0,
        gt=0,
        le=1,
        description="Fraction of the clients that takes part in each round, drawn without replacement, at "
        "least one.",
    )
    weights: Literal["size", "uniform"] = Field(
        "size",
        description="Weights of the server's average: by training images, or all alike. Methods with a rule "
        "of their own refuse it.",
    )

    @model_validator(mode="before")
    @classmethod
    def _of_earlier_versions(cls, value: Any) -> Any:
        """Archived runs name `patience`, an early stop that none of them had."""
        if isinstance(value, dict) and value.get("patience", 0) is None:
            return {key: inner for key, inner in value.items() if key != "patience"}
        return value


class Evaluation(Closed):
    """When to evaluate, and which weights to keep."""

    every: int = Field(
        1, ge=1, le=MOST, description="Rounds between two evaluations; the last round is always evaluated."
    )
    keep: Literal["none", "post_agg", "slots", "clients"] = Field(
        "post_agg",
        description="Which weights stay of the best and the last round: none, those after aggregation, or "
        "with `slots` also the server's slots that the method declares worth it (hFedF's hypernetwork), "
        "with `clients` also every client's model right after its local training.",
    )
