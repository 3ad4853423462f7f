"""The data of a run: which images, how they are decoded and what the network sees of them, and who holds
which sample.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from fedshift.common.files import canonical_json, sha256
from fedshift.common.registry import get, module
from fedshift.identity import ENGINE_VERSION, fingerprint
from fedshift.spec.block import Closed


class Prepare(Closed):
    """How raw images become the uint8 memory map: squares of `px` pixels."""

    px: int = Field(32, ge=8, le=1024, description="Side of the square images on disk, in pixels.")
    resample: Literal["bilinear"] = Field(
        "bilinear", description="How an image is resized to `px`: by Pillow's filter, which is antialiased."
    )


class Source(Closed):
    """Which images, how they are decoded, and which domain is held out."""

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
        """The held-out domains, the one that is reported first."""
        return (self.target,) if isinstance(self.target, str) else self.target or ()

    @property
    def target_name(self) -> str | None:
        """`target` as one word for paths and records: "a+b" of two."""
        return "+".join(self.held_out) or None

    @property
    def prepared_name(self) -> str:
        """`<data set>/<px>-<recipe>`: the folder of decoded images below data/prepared.

        The recipe covers release, resampling, and the versions of the data set and of the engine. Not covered
        is the content of the raw tree: prepared.json has the tree's own hash.
        """
        version = get("datasets", self.dataset).version
        recipe = [self.release, self.prepare.model_dump(exclude_defaults=True), version, ENGINE_VERSION]
        return f"{self.dataset}/{self.prepare.px}-{short(recipe)}"


class Data(Source):
    """What the network sees of the images."""

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


class Partition(Closed):
    """Who holds which sample."""

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
    groups: Literal["apart", "together"] = Field(
        "apart",
        description="`together` keeps duplicates of an image on one side of a split; `apart` ignores them.",
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
        if min(self.fractions) < 0 or self.fractions[0] == 0 or abs(sum(self.fractions) - 1) > 1e-9:
            raise ValueError(
                "fractions (train, val, test) must not be negative and must sum to 1, with some train"
            )
        if self.fractions[1] == 0:
            raise ValueError("the validation fraction must not be 0: rounds are selected on it")
        return self


class Division(Closed):
    """Who holds which sample: all that a partition depends on. Every RunSpec holds one, and more."""

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

        The recipe covers everything that decides who holds which sample: the declared settings, the versions
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


def short(recipe: object) -> str:
    """12 hexadecimals over a recipe."""
    return sha256(canonical_json(recipe))[:12]
