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
        "bilinear", description="Pillow's antialiased filter that resizes images to `px`."
    )


class Source(Closed):
    """The images, how they are decoded, and the held-out domain."""

    dataset: str = Field(description="Name of the data set (see `fedshift list datasets`).")
    release: str = Field(
        "original",
        description="Published version of the images; docs/datasets.md lists the releases of each data set.",
    )
    target: str | tuple[str, str] | None = Field(
        None,
        description="The held-out domain, on which no client trains; null for none. With two, `[a, b]`, "
        "results are reported on a, and b selects the round (leave-one-domain-out validation).",
    )
    prepare: Prepare = Field(Prepare(), description="How raw images are decoded and resized.")

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
        description="Side of the network's input images in pixels, at most `prepare.px`. Some networks have "
        "a minimum.",
    )
    normalise: Literal["unit", "half", "imagenet"] = Field(
        "unit",
        description="Range of pixel values: `unit`, [0, 1]; `half`, [-1, 1]; `imagenet`, standardised by "
        "ImageNet's mean and standard deviation per channel.",
    )
    augment: Literal["none", "flip", "translate", "domainbed", "fedrd"] = Field(
        "none",
        description="Augmentation of training images: `none`; `flip`, horizontal; `translate`, a flip and a "
        "crop of the image enlarged to 9/8; `domainbed`, crop, flip, colour jitter and greyscale; "
        "`fedrd`, the same with stronger jitter.",
    )


class Groups(Closed):
    """Images that no split separates, such as those of a patient: by `pattern` or by `file`."""

    pattern: str = Field(
        "",
        description="A regular expression that extracts the group from an image's file name: its first "
        "capturing group, as in `(P[0-9]+)_`, or the whole match.",
    )
    file: str = Field(
        "",
        description="A CSV file in the project with the columns `path` (domain/class/file, or file) and "
        "`group`.",
    )
    sha256: str = Field("", description="SHA-256 of the file, filled in when runs are declared.")

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
        description="How samples are divided between clients (see `fedshift list partitions`).",
    )
    params: dict[str, Any] = Field({}, description="Parameters of the scheme.")
    fractions: tuple[float, float, float] = Field(
        (0.8, 0.1, 0.1),
        description="Fractions of each client's samples for training, validation and test, split at random. "
        "They sum to 1. Training and validation must not be 0, as rounds are selected on "
        "validation images.",
    )
    split: Literal["random", "official"] = Field(
        "random", description="Whether samples are split at random by `fractions`, or by the official lists."
    )
    groups: Literal["apart", "together"] | Groups = Field(
        "apart",
        description="`together` keeps duplicates of an image on one side of a split; `apart` ignores "
        "duplicates. `{pattern: REGEX}` or `{file: CSV}` keeps all images of a group, such as a "
        "patient, on one side.",
    )
    target_split: Literal["all", "test", "client"] = Field(
        "all",
        description="Test images of the held-out domain: `all`; `test`, its official test list; `client`, "
        "the test part that it would have as a client (FDSE's unseen clients).",
    )
    modify: dict[str, dict[str, Any]] = Field(
        {},
        description="Modifiers of the partition in order, by name, with their parameters (see `fedshift list "
        "modifiers`).",
    )

    @model_validator(mode="after")
    def _fractions(self) -> Partition:
        if min(self.fractions) < 0 or 0 in self.fractions[:2] or abs(sum(self.fractions) - 1) > 1e-9:
            what = "fractions (train, val, test) must sum to 1, none negative, train and validation not 0"
            raise ValueError(f"{what}: rounds are selected on validation images")
        return self


class Division(Closed):
    """All that a partition depends on. Every RunSpec also has these blocks."""

    data: Source = Field(description="The images and the held-out domain.")
    partition: Partition = Field(Partition(), description="How samples are divided between clients.")
    seed: int = Field(
        0,
        ge=0,
        lt=2**63,
        description="Random seed of the split, initial weights, batches, augmentation and participation.",
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
        if (self.partition.split, self.partition.groups) == ("official", "together"):
            recipe.append("copies in one split")
        return f"{self.data.dataset}/{short([*recipe, self.data.target, self.seed])}"


class Model(Closed):
    """Architecture and start."""

    name: str = Field(description="Name of the network (see `fedshift list models`).")
    params: dict[str, Any] = Field({}, description="Parameters of the network.")
    init: Literal["scratch", "imagenet"] = Field(
        "scratch",
        description="Initial weights: `scratch`, random, from the run's seed and each tensor's name; "
        "`imagenet`, torchvision's first published weights (docs/datasets.md).",
    )

    def build(self, classes: int, px: int) -> Any:
        """A new network (fedshift.models.base.Model) before its method changes it, on torch's default device.

        Raises FedshiftError if `px` is too small.

        classes: number of classes; px: side of the images in pixels
        """
        return get("models", self.name)(classes, px, **self.params)


class Method(Closed):
    """Federated method and its hyper-parameters (those of its `Params`)."""

    name: str = Field(description="Name of the method (see docs/methods.md).")
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
        "round", description="Unit of u: rounds, or local epochs over all rounds."
    )
    gamma: float = Field(1.0, gt=0, le=1, description="Decay factor of `exponential` and `step`.")
    step: int = Field(1, ge=1, le=MOST, description="Units between decays of `step`.")


class Local(Closed):
    """A client's training in one round."""

    batch: int = Field(ge=1, le=MOST, description="Batch size; a client with fewer images uses all of them.")
    batch_rule: Literal["wrap", "drop_last", "keep_last"] = Field(
        "keep_last",
        description="The last n mod B images of an epoch: `keep_last` trains on the smaller batch (except a "
        "single image before batch normalisation), `drop_last` skips them, `wrap` fills the batch "
        "from the next shuffled pass.",
    )
    epochs: int = Field(1, ge=1, le=MOST, description="Local epochs per round.")
    optimizer: Literal["sgd", "adam"] = Field("sgd", description="The clients' optimiser (torch.optim).")
    lr: float = Field(ge=0, description="Initial learning rate.")
    momentum: float = Field(0.0, ge=0, lt=1, description="Momentum of `sgd`; `adam` uses its own.")
    weight_decay: float = Field(
        0.0,
        ge=0,
        description="L2 penalty: this factor times the weights is added to the gradient, in both optimisers.",
    )
    optimizer_state: Literal["reset", "persist"] = Field(
        "reset", description="Whether a client's optimiser state is reset in each round or persists."
    )
    clip: float | None = Field(
        None,
        gt=0,
        description="Maximum norm of the whole gradient, which is scaled down if larger; null: no clipping.",
    )
    schedule: Schedule = Field(Schedule(), description="Learning-rate schedule.")
    precision: Literal["fp32", "tf32", "bf16"] = Field(
        "fp32",
        description="Precision: `fp32`; `tf32`, 10 bits of mantissa in convolutions and matrix products on "
        "CUDA; `bf16`, torch's autocast.",
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
        description="Fraction of clients sampled in each round, without replacement; at least one client.",
    )
    weights: Literal["size", "uniform"] = Field(
        "size",
        description="Weights of clients in the server's average: by number of training images, or uniform. "
        "Methods with their own rule reject this setting.",
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
        1, ge=1, le=MOST, description="Rounds between evaluations; the last round is always evaluated."
    )
    keep: Literal["none", "post_agg", "slots", "clients"] = Field(
        "post_agg",
        description="Weights to save from the best and the last round: `none`; `post_agg`, after "
        "aggregation; `slots`, also server slots that the method marks for saving (hFedF's hypernetwork); "
        "`clients`, also each client's model after local training.",
    )


def short(recipe: object) -> str:
    """12 hexadecimals over a recipe."""
    return sha256(canonical_json(recipe))[:12]
