"""The base class of networks: ordered named stages, a neck, a feature and a head."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any, ClassVar, Literal, NamedTuple

from torch import Tensor, nn

from fedshift.common.errors import FedshiftError, check_known

MapFunction = Callable[[Tensor], Tensor]
NOTHING: Mapping[str, MapFunction] = MappingProxyType({})


class Out(NamedTuple):
    """Output of a network for a batch: feature [B, F] (the input of the head) and logits [B, C]."""

    feature: Tensor
    logits: Tensor


class Model(nn.Module):
    """A network in three pieces: `stages` to a map [B, c, h, w], `neck` to a feature [B, F], `head`.

    A subclass builds them and `feature_dim`. The stages of every network are called `stage1`, `stage2`, ...
    after an optional `stem`. Methods can therefore name a stage without knowing the network. Raises
    FedshiftError if the input is too small for the network, or an option is unknown.
    """

    @dataclass(frozen=True)
    class Params:
        """Options of the network: none."""

    name: ClassVar[str]
    version: ClassVar[int] = 1
    revision: ClassVar[int] = 0  # of AnyModule, in the run ids of registered networks
    min_px: ClassVar[int] = 1  # the smallest input side, pixels
    indicator: str  # the weight whose drift FedRD measures, in stage1
    weights: ClassVar[Mapping[str, str]] = MappingProxyType({})  # `init` -> published file, or "package:path"
    pieces: ClassVar[Mapping[str, str]] = MappingProxyType({})  # our module -> what such a file calls it
    kaiming: ClassVar[Literal["fan_in", "fan_out"] | None] = None  # how convolutions start, with zero bias

    stages: nn.ModuleDict
    neck: nn.Module
    head: nn.Module
    feature_dim: int

    def __init__(self, classes: int, input_px: int, **params: Any) -> None:
        super().__init__()
        where = f"model {self.name}"
        for key in params:
            check_known(where, "option", key, [field.name for field in fields(self.Params)])
        if input_px < self.min_px:
            cure = f"Set data.input_px and data.prepare.px to {self.min_px} or more, or choose another model."
            raise FedshiftError(where, f"an input of {input_px} px is too small", cure)
        self.hp = self.Params(**params)
        self.classes, self.input_px = classes, input_px

    def body(self, x: Tensor, after: Mapping[str, MapFunction] = NOTHING, stop: str | None = None) -> Tensor:
        """The map after the last stage, or after stage `stop`, for x [B, 3, h, w].

        `after[stage]` is applied to that stage's output (`stop` included) before the next stage. Raises
        FedshiftError for an unknown stage.
        """
        for name in [*after, *([stop] if stop is not None else [])]:
            check_known(f"model {self.name}", "stage", name, [*self.stages])
        for name, stage in self.stages.items():
            x = stage(x)
            if name in after:
                x = after[name](x)
            if name == stop:
                break
        return x

    def initialise(self, module: nn.Module) -> None:
        """Initialise a module from torch's default generator, by its own rule or that of the network."""
        reset = getattr(module, "reset_parameters", None)
        if self.kaiming and type(module) is nn.Conv2d:  # subclasses initialise themselves
            nn.init.kaiming_normal_(module.weight, mode=self.kaiming)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif callable(reset):
            reset()

    @classmethod
    def published(cls, entry: str) -> str | None:
        """The name of an entry in a file of published weights; None if the file does not contain it."""
        for ours, theirs in cls.pieces.items():
            if entry.startswith(f"{ours}."):
                return theirs + entry.removeprefix(ours)
        return None

    def forward(self, x: Tensor, after: Mapping[str, MapFunction] = NOTHING) -> Out:
        """Features [B, F] and logits [B, C] of images [B, 3, px, px]; `after` as in `body`."""
        feature = self.neck(self.body(x, after))
        return Out(feature, self.head(feature))


class AnyModule(Model):
    """A network of any shape with the parts that methods need: all but its last linear layer is one stage.

    A subclass names the `network`: an nn.Module that maps images [B, 3, h, w] to logits [B, C], and whose
    last `nn.Linear` is the head. It starts as its constructor leaves it. Methods that work on feature maps
    between stages need a `Model` instead. Raises FedshiftError for a module without such a layer, or with
    another number of outputs.
    """

    revision = 2  # 2: starts as its constructor leaves it, and its head is last
    network: ClassVar[Callable[..., nn.Module]]
    counts: ClassVar[tuple[str, ...]] = ("classes", "num_classes", "n_classes")  # names of its argument

    def __init__(self, classes: int, input_px: int, **params: Any) -> None:
        super().__init__(classes, input_px, **params)
        kind = type(self).network
        taken = inspect.signature(kind).parameters
        body = kind(**{name: classes for name in self.counts if name in taken})
        linear = [(name, part) for name, part in body.named_modules() if isinstance(part, nn.Linear)]
        where = f"model {self.name}"
        if not linear or linear[-1][1].out_features != classes:
            found = f"one of {linear[-1][1].out_features} outputs" if linear else "none"
            cure = "Let its constructor take `classes`, and end it with nn.Linear(.., classes)."
            raise FedshiftError(where, f"its last nn.Linear must have {classes} outputs: {found}", cure)
        path, head = linear[-1]
        body.set_submodule(path, nn.Identity())
        self.stages, self.neck, self.head = nn.ModuleDict({"stage1": body}), nn.Flatten(), head
        self.feature_dim = head.in_features
        weights = [name for name, weight in body.named_parameters() if weight.dim() == 4]
        weights += [name for name, weight in body.named_parameters() if weight.dim() > 1]
        if not weights:
            raise FedshiftError(where, "has no layer before the last one", "Give it a convolution.")
        self.indicator = f"stages.stage1.{weights[0]}"

    def initialise(self, module: nn.Module) -> None:
        """Leave what the constructors have set: they may have loaded weights. Their generator is seeded."""
