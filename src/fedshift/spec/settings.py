"""The blocks of a run's settings: images and partition, network and method, a client's training in one
round, the federation, and the evaluation.
"""

from __future__ import annotations

import re
from typing import Any, Literal

from pydantic import Field, model_validator

from fedshift.common.files import canonical_json, sha256
from fedshift.common.registry import get, module
from fedshift.identity import ENGINE_VERSION, fingerprint
from fedshift.spec.block import MOST, Closed, params


class Prepare(Closed):
    """How raw images become the uint8 memory map: squares of `px` pixels."""

    px: int = Field(32, ge=8, le=1024, description="Side of the square images on disk, in pixels.")
    resample: Literal["bilinear"] = Field(
        "bilinear", description="How an image is resized to `px`: by Pillow's filter, which is antialiased."
    )


class Source(Closed):
    """The images, how they are decoded, and the held-out domain."""

    dataset: str = Field(description="Name of the data set; `fedshift list datasets` names all.")
    release: str = Field(
        "original",
        description="Which published version of the images; docs/datasets.md lists each data set's.",
    )
    target: str | tuple[str, str] | None = Field(
        None,
        description="The held-out domain, in which no client trains; null for none. Of two, `[a, b]`, a is "
        "reported and b chooses the round (leave-one-domain-out validation).",
    )
    prepare: Prepare = Field(Prepare(), description="How raw images are decoded.")

    @property
    def held_out(self) -> tuple[str, ...]:
        """The held-out domains, the reported one first."""
        return (self.target,) if isinstance(self.target, str) else self.target or ()

    @property
    def target_name(self) -> str | None:
        """`target` as one word for paths and records: "a+b" for two."""
        return "+".join(self.held_out) or None

    @property
    def prepared_name(self) -> str:
        """`<data set>/<px>-<recipe>`: the folder of decoded images below data/prepared.

        The recipe covers release, resampling, and the versions of the data set and of the engine. It does not
        cover the content of the raw tree, whose hash is in prepared.json.
        """
        version = get("datasets", self.dataset).version
        recipe = [self.release, self.prepare.model_dump(exclude_defaults=True), version, ENGINE_VERSION]
        return f"{self.dataset}/{self.prepare.px}-{short(recipe)}"


class Data(Source):
    """The images as the network sees them."""

    input_px: int = Field(
        32,
        ge=8,
        le=1024,
        description="Side of the images that the network sees, in pixels; at most `prepare.px`. The network "
        "may ask for a minimum.",
    )
    normalise: Literal["unit", "half", "imagenet"] = Field(
        "unit",
        description="Scale of pixel values: `unit` [0, 1]; `half` [-1, 1]; `imagenet` by ImageNet's mean "
        "and deviation per channel.",
    )
    augment: Literal["none", "flip", "translate", "domainbed", "fedrd"] = Field(
        "none",
        description="Random changes of training images: none; `flip`, left to right; `translate`, a flip, "
        "then a crop of the image at 9/8 of its size; `domainbed`, crop, flip, colours and greyscale; "
        "`fedrd`, the same with stronger colours.",
    )


class Groups(Closed):
    """Images that no split separates, such as those of a patient: by `pattern` or by `file`."""

    pattern: str = Field(
        "",
        description="A regular expression that finds the group in the name of an image's file: its first "
        "bracketed part, `(P[0-9]+)_`, or all that it matches.",
    )
    file: str = Field(
        "",
        description="A CSV file in the project, with columns `path` (domain/class/file, or file), `group`.",
    )
    sha256: str = Field("", description="Of the file; filled in where runs are declared.")

    @model_validator(mode="after")
    def _one(self) -> Groups:
        if bool(self.pattern) == bool(self.file):
            raise ValueError("give `pattern` or `file`")
        try:
            re.compile(self.pattern)
        except re.error as error:
            raise ValueError(f"pattern is not a regular expression: {error}") from None
        return self


class Partition(Closed):
    """The clients' samples."""

    scheme: str = Field(
        "domain_per_client",
        description="How samples are dealt to clients; `fedshift list partitions` names all schemes.",
    )
    params: dict[str, Any] = Field({}, description="Parameters of the scheme.")
    fractions: tuple[float, float, float] = Field(
        (0.8, 0.1, 0.1),
        description="Train, validation and test part of every client's samples, drawn at random. They sum "
        "to 1; neither train nor validation is 0, as rounds are chosen on validation.",
    )
    split: Literal["random", "official"] = Field(
        "random",
        description="Whether parts are drawn at random by `fractions` or taken from the data set's own "
        "lists.",
    )
    groups: Literal["apart", "together"] | Groups = Field(
        "apart",
        description="`together` keeps duplicates of an image on one side of a split; `apart` ignores them. "
        "`{pattern: REGEX}` or `{file: CSV}` keeps all images of a group (a patient) on one side.",
    )
    target_split: Literal["all", "test", "client"] = Field(
        "all",
        description="Which images of the held-out domain are tested: all; its official test list; the test "
        "part that it would have as a client of its own (FDSE's unseen clients).",
    )
    modify: dict[str, dict[str, Any]] = Field(
        {},
        description="Changes made to the finished partition, by name with their parameters, in this order; "
        "`fedshift list modifiers` names all.",
    )

    @model_validator(mode="after")
    def _fractions(self) -> Partition:
        if min(self.fractions) < 0 or 0 in self.fractions[:2] or abs(sum(self.fractions) - 1) > 1e-9:
            what = "fractions (train, val, test) must sum to 1, none negative, train and validation not 0"
            raise ValueError(f"{what}: rounds are selected on validation images")
        return self


class Division(Closed):
    """All that a partition depends on. Every RunSpec also has these blocks."""

    data: Source = Field(description="Which images, and which domain is held out.")
    partition: Partition = Field(Partition(), description="Who holds which sample.")
    seed: int = Field(
        0,
        ge=0,
        lt=2**63,
        description="Decides every draw: split, start, batches, augmentation, participation.",
    )

    @property
    def partition_name(self) -> str:
        """`<data set>/<recipe>`: the Parquet file of the partition below data/partitions.

        The recipe covers everything that determines the clients' samples: the declared settings, the versions
        of data set, scheme, modifiers and engine, and the files of scheme and modifiers.
        """
        scheme = ("partitions", self.partition.scheme)
        plugins = [scheme, *(("modifiers", name) for name in self.partition.modify)]
        recipe = [
            self.data.release,
            get("datasets", self.data.dataset).version,
            self.partition.model_dump(exclude_defaults=True),
            *(get(*plugin).version for plugin in plugins),
            ENGINE_VERSION,
            fingerprint(*(module(*plugin) for plugin in plugins)),
        ]
        return f"{self.data.dataset}/{short([*recipe, self.data.target, self.seed])}"


class Model(Closed):
    """Architecture and start."""

    name: str = Field(description="Name of the network; `fedshift list models` names all.")
    params: dict[str, Any] = Field({}, description="Parameters of the network.")
    init: Literal["scratch", "imagenet"] = Field(
        "scratch",
        description="Start: `scratch`, drawn from the run's seed and each tensor's name; `imagenet`, the "
        "first weights that torchvision published (docs/datasets.md).",
    )

    def build(self, classes: int, px: int) -> Any:
        """A new network (fedshift.models.base.Model) before its method changes it, on torch's default device.

        Raises FedshiftError if `px` is too small.

        classes: number of classes; px: side of the images in pixels
        """
        return get("models", self.name)(classes, px, **self.params)


class Method(Closed):
    """Federated method and its hyper-parameters (those of its `Params`)."""

    name: str = Field(description="Name of the method; docs/methods.md describes all.")
    params: dict[str, Any] = Field({}, description="Hyper-parameters of the method.")

    def build(self) -> Any:
        """A new fedshift.federation.method.Method with these parameters.

        Attributes of a method may depend on them, so use those of the object, not of its class.
        """
        kind = get("methods", self.name)
        return kind(params(kind, self.params))

    def weights(self, protocol: str) -> str:
        """The weights of clients: "size" or "uniform", which the method or the protocol declares, or
        "own".
        """
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
    """Rounds, participation, and the weights of the average."""

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
        """Drop `patience` from archived runs, an early stop that none of them used."""
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


def short(recipe: object) -> str:
    """12 hexadecimals over a recipe."""
    return sha256(canonical_json(recipe))[:12]
