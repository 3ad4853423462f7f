"""RunSpec: the complete, typed, frozen description of one training run.

Every field that can change the numbers is here, and nothing else. The defaults below are *frozen*: a field at its default is left
out of the digest, so a default is never changed once a run has been made with it; new options are added with a default that
means "as before". What an experiment wants differently it says in its protocol.
"""

from __future__ import annotations

from typing import Any, Literal, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic.fields import FieldInfo

from fedshift.errors import FedshiftError, nearest

Block = TypeVar("Block", bound=BaseModel)


class Closed(BaseModel):
    """A frozen block of options that refuses keys it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Prepare(Closed):
    """How raw images become the uint8 memory map: squares of `px` pixels."""

    px: int = Field(32, ge=8, le=1024)
    resample: Literal["bilinear"] = "bilinear"


class Source(Closed):
    """Which images, how they are decoded, and which domain is held out (`target: null` for none).

    Of two, `target: [a, b]`, a is reported; b is for choosing the round (leave-one-domain-out validation).
    """

    dataset: str
    release: str = "original"
    target: str | tuple[str, str] | None = None
    prepare: Prepare = Prepare()

    @property
    def held_out(self) -> tuple[str, ...]:
        """The held-out domains, the one that is reported first."""
        return (self.target,) if isinstance(self.target, str) else self.target or ()

    @property
    def target_name(self) -> str | None:
        """`target` as one word for paths and records: "a+b" of two."""
        return "+".join(self.held_out) or None


class Data(Source):
    """What the network sees of the images."""

    input_px: int = Field(32, ge=8, le=1024)
    normalise: Literal["unit", "half", "imagenet"] = "unit"
    augment: Literal["none", "flip", "translate", "domainbed", "fedrd"] = "none"


class Partition(Closed):
    """Who holds which sample.

    fractions: train, validation and test of every client's part, drawn at random, or `split: official`, the data set's own lists;
    groups: `together` keeps duplicates on one side of a split; target_split: all of the held-out domain, its official test list, or the
    part that it would test on as a `client` of its own (FDSE's unseen clients);
    modify: changes made afterwards, by name, in this order.
    """

    scheme: str = "domain_per_client"
    params: dict[str, Any] = {}
    fractions: tuple[float, float, float] = (0.8, 0.1, 0.1)
    split: Literal["random", "official"] = "random"
    groups: Literal["apart", "together"] = "apart"
    target_split: Literal["all", "test", "client"] = "all"
    modify: dict[str, dict[str, Any]] = {}

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

    data: Source
    partition: Partition = Partition()
    seed: int = Field(0, ge=0)


class Model(Closed):
    """Architecture and start: `scratch`, every entry seeded by the run's seed and its name; `imagenet`, torchvision's first weights."""

    name: str
    params: dict[str, Any] = {}
    init: Literal["scratch", "imagenet"] = "scratch"


class Method(Closed):
    """Federated method and its hyper-parameters (those of its `Params`)."""

    name: str
    params: dict[str, Any] = {}


class Schedule(Closed):
    """Learning rate over rounds or local epochs: lr * gamma^u; lr * gamma^(u // step); lr * (1 + cos(pi u / U)) / 2."""

    kind: Literal["constant", "exponential", "step", "cosine"] = "constant"
    unit: Literal["round", "epoch"] = "round"
    gamma: float = Field(1.0, gt=0, le=1)
    step: int = Field(1, ge=1)


class Local(Closed):
    """A client's training in one round.

    precision: fp32; tf32, on CUDA convolutions and matrix products of fp32 tensors by their first 10 bits of mantissa; bf16, autocast.
    """

    batch: int = Field(ge=1)
    batch_rule: Literal["wrap", "drop_last", "keep_last"] = "keep_last"
    epochs: int = Field(1, ge=1)
    optimizer: Literal["sgd", "adam"] = "sgd"
    lr: float = Field(ge=0)
    momentum: float = Field(0.0, ge=0, lt=1)
    weight_decay: float = Field(0.0, ge=0)
    optimizer_state: Literal["reset", "persist"] = "reset"
    clip: float | None = Field(None, gt=0)
    schedule: Schedule = Schedule()
    precision: Literal["fp32", "tf32", "bf16"] = "fp32"

    @model_validator(mode="after")
    def _momentum(self) -> Local:
        if self.momentum and self.optimizer != "sgd":
            raise ValueError("momentum belongs to optimizer 'sgd'; adam has its own")
        return self


class Federation(Closed):
    """Rounds, the fraction of clients that takes part in each, and the weights of the average (`size`: by training samples)."""

    rounds: int = Field(ge=0)
    participation: float = Field(1.0, gt=0, le=1)
    weights: Literal["size", "uniform"] = "size"


class Evaluation(Closed):
    """Every how many rounds to evaluate (the last round always is), and which weights to keep of the best and the last round."""

    every: int = Field(1, ge=1)
    keep: Literal["none", "post_agg"] = "post_agg"


class RunSpec(Division):
    """One training run. See the blocks above; `seed` drives every draw: split, start, batches, augmentation, participation."""

    data: Data
    model: Model
    method: Method
    local: Local
    federation: Federation
    evaluation: Evaluation = Evaluation()

    @model_validator(mode="after")
    def _pixels(self) -> RunSpec:
        if self.data.input_px > self.data.prepare.px:
            raise ValueError(
                f"data.input_px {self.data.input_px} exceeds data.prepare.px {self.data.prepare.px}: pixels cannot be made up"
            )
        return self


def parse(value: dict[str, Any], where: str) -> RunSpec:
    """Check `value` as a RunSpec. Raises FedshiftError that names `where`, the key and the nearest valid one."""
    return closed(RunSpec, value, where)


def closed(block: type[Block], value: object, where: str) -> Block:
    """Validate `value` as a closed block; the first mistake becomes a FedshiftError with a cure."""
    try:
        return block.model_validate(value)
    except ValidationError as error:
        raise _explain(block, error, where) from None


def _explain(block: type[BaseModel], error: ValidationError, where: str) -> FedshiftError:
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        return FedshiftError(
            where, f"unknown key '{place}'", nearest(str(first["loc"][-1]), _keys(block, first["loc"][:-1]))
        )
    if first["type"] == "literal_error":
        choices = [choice.strip("' ") for choice in first["ctx"]["expected"].replace(" or ", ", ").split(",")]
        return FedshiftError(
            where, f"'{place}' cannot be '{first['input']}'", nearest(str(first["input"]), choices)
        )
    if first["type"] == "missing":
        return FedshiftError(
            where, f"'{place}' is missing", f"Add '{place}' there or in the protocol that it names."
        )
    said = first["msg"].removeprefix("Value error, ")
    value = first["input"] if isinstance(first["input"], str | int | float | bool | None) else None
    return FedshiftError(
        where, f"'{place or block.__name__}': {said}" + (f" (got {value!r})" if value is not None else "")
    )


def _keys(block: type[BaseModel], path: tuple[int | str, ...]) -> list[str]:
    """The keys of the block that lies at `path`: below its fields, and below any name in a mapping of blocks."""
    inner: Any = block
    for part in path:
        fields = _fields(inner)
        inner = fields[str(part)].annotation if str(part) in fields else (get_args(inner) or (None,))[-1]
    return list(_fields(inner))


def _fields(kind: Any) -> dict[str, FieldInfo]:
    return kind.model_fields if isinstance(kind, type) and issubclass(kind, BaseModel) else {}
