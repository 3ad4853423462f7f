"""Evaluation: a table computed from the saved models of a finished run and the images they were tested on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import pyarrow as pa
import torch
from torch import Tensor

from fedshift.common.errors import FedshiftError
from fedshift.federation.evaluate import BATCH, Set
from fedshift.federation.layout import Layout, Network
from fedshift.federation.method import Method, NoParams
from fedshift.federation.records import GLOBAL, KEYS, LOCAL, PERSONALISED, Tested
from fedshift.federation.samples import Samples
from fedshift.models.base import Model, Out
from fedshift.spec import RunSpec

if TYPE_CHECKING:
    import pandas as pd

Row = dict[str, Any]
Split = Literal["val", "test", "target"]
Stage = Literal["reported", "post_train", "post_agg"]


class Kept(NamedTuple):
    """A model whose weights a run saved.

    `model`, `stage`, `member`: its names in records ("global" or "personal"; fedshift.federation.records).
    `row`: its weights [P + Q], which the caller may change.
    `sets`: (client, split, positions of images) that the run tested it on. Splits are "val" and "test" of
        clients, and "target" of client -1, the held-out domain, and of -2, a second one.
    """

    model: str
    stage: str
    member: int
    row: Tensor
    sets: list[Set]


@dataclass(frozen=True)
class Trained:
    """A finished run as seen by an evaluation.

    `spec`: its settings.
    `round`: of the weights.
    `network`: to be bound to a model's weights.
    `layout`: of the weights.
    `samples`: all images with their labels.
    `precision`: a context for forward passes.
    `classes`: names of the labels.
    `domains`: returns the domain of every image, by position.
    `models`: yields the saved models; each call restores them again.
    `reported`: model and stage of clients that tables show.
    """

    spec: RunSpec
    round: int
    network: Network
    layout: Layout
    samples: Samples
    precision: Callable[[], torch.autocast]
    classes: list[str]
    domains: Callable[[], Sequence[str]]
    models: Callable[[], Iterator[Kept]]
    reported: Tested

    def sets(self, splits: Sequence[str]) -> Iterator[tuple[Row, Tensor, Tensor]]:
        """Each saved model on each of its sets with images: keys of its rows, model [P + Q], positions."""
        for model in self.models():
            for client, split, index in model.sets:
                if len(index) and split in splits:
                    yield self.key(model, client, split), model.row, index

    def of_clients(self, stage: Stage = "reported") -> dict[int, Kept]:
        """One model of each client, by its number; the same model if all clients share it.

        `stage`: "reported" is the one in tables ("post_agg" if it was not saved). "post_train" is the one
            right after local training, "post_agg" the one after aggregation.

        Raises FedshiftError if the run saved no such model.
        """
        found: dict[int, dict[Tested, Kept]] = {}
        for kept in self.models():
            for client in {client for client, *_ in kept.sets if client >= 0}:
                found.setdefault(client, {})[kept.model, kept.stage] = kept
        wanted = {
            "reported": (self.reported, PERSONALISED, GLOBAL),
            "post_train": (LOCAL,),
            "post_agg": (PERSONALISED, GLOBAL),
        }[stage]
        chosen: dict[int, Kept] = {}
        for client, tested in sorted(found.items()):
            if fitting := [tested[name] for name in wanted if name in tested]:
                chosen[client] = fitting[0]
        if not chosen:
            what = f"has no saved model of its clients at the stage '{stage}'"
            cure = "Train it with evaluation.keep: clients."
            if self.round == 0:
                what = f"reports its start, where no client has a model of the stage '{stage}'"
                cure = "Train more rounds, or ask for the stage 'reported'."
            raise FedshiftError("evaluation", what, cure)
        return chosen

    def key(self, kept: Kept, client: int | None, split: str | None) -> Row:
        """The keys of a row about a model on a client's images; None: on all clients together."""
        values = self.round, kept.stage, kept.model, kept.member, client, split
        return dict(zip(KEYS, values, strict=True))

    def images(self, index: Tensor, size: int = BATCH) -> Iterator[tuple[Tensor, Tensor]]:
        """Images as model inputs, and labels, at positions `index` in batches of `size`."""
        for part in index.split(size):
            pixels, y = self.samples.take(part)
            yield self.samples.evaluate(pixels), y

    @torch.no_grad()
    def outputs(self, row: Tensor, index: Tensor) -> Iterator[tuple[Out, Tensor]]:
        """Features and logits in fp32, and labels, of the images at positions `index`, in batches."""
        model = self.network.bind(row).model.eval()
        for x, y in self.images(index):
            with self.precision():
                feature, logits = model(x)
            yield Out(feature.float(), logits.float()), y


class Evaluation:
    """An evaluation of finished runs. `hp`: its parameters; `method`: the run's method, with its parameters.

    `name`, `version`: of the registry; the version is increased when results change.
    `Params`: a frozen dataclass of its parameters.
    `columns`: of its table, after those that identify model and images (fedshift.federation.records.KEYS).
    `adapts`: whether it first changes the models by the held-out images, and returns accuracy and loss. Under
        `adapt` in an experiment it is a row of tables.
    `quantities`: name -> label in tables and claims of a number that `quantity` computes from a run's table.
    """

    name: ClassVar[str]
    version: ClassVar[int] = 1
    Params: ClassVar[type] = NoParams
    columns: ClassVar[dict[str, pa.DataType]]
    adapts: ClassVar[bool] = False
    quantities: ClassVar[Mapping[str, str]] = MappingProxyType({})

    def __init__(self, hp: Any, method: Method) -> None:
        self.hp, self.method = hp, method

    @classmethod
    def check(cls, model: Model, where: object) -> None:
        """Raise FedshiftError at `where` for a network that the evaluation does not support.

        `model`: the network in the form that the method uses. The check is also called when a run is planned,
            when tensors may have no values.
        """

    def rows(self, run: Trained) -> Iterator[Row]:
        """The rows of its table: KEYS and `columns`.

        Random numbers come from fedshift.federation.batches only.
        """
        raise NotImplementedError

    @staticmethod
    def quantity(table: pd.DataFrame, name: str) -> float:
        """One of `quantities`, computed from the table of a run; NaN if it is not defined."""
        raise NotImplementedError

    @classmethod
    def line(cls, table: pa.Table) -> str:
        """The line that the command prints when it has written a table: its quantities, or what it holds."""
        frame = table.to_pandas()
        found = [f"{label} {cls.quantity(frame, name):.3f}" for name, label in cls.quantities.items()]
        return ", ".join(found) or f"{len(table)} rows"

    def table(self, run: Trained) -> pa.Table:
        """All rows of a run as a table."""
        return pa.Table.from_pylist([*self.rows(run)], self.schema())

    @classmethod
    def schema(cls) -> pa.Schema:
        """The columns of its table, starting with KEYS."""
        return pa.schema({**KEYS, **cls.columns})
