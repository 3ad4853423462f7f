"""What an evaluation is: a table, made of the kept models of a finished run and the images that they were
tested on.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch import Tensor

from fedshift.common.errors import FedshiftError
from fedshift.common.files import atomic_path
from fedshift.common.parquet import read_parquet
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
    """A model whose weights a run kept.

    model, stage, member: what its records call it ("global" or "personal"; fedshift.federation.records)
    row: [P + Q], the caller's to change
    sets: (client, split, positions of images) that the run tested it on: "val" and "test" of clients,
        "target" of client -1, the held-out domain, and of -2, a second one
    """

    model: str
    stage: str
    member: int
    row: Tensor
    sets: list[Set]


@dataclass(frozen=True)
class Trained:
    """What an evaluation sees of a finished run.

    spec: its settings; round: whose weights these are; network: to be bound to a model's row; layout: of the
    row; samples: all images with their labels; precision: entered around a forward pass; classes: names of
    the labels; domains: gives the domain of every image, by position; models: gives the kept models, made
    anew by each call; reported: which of the models that clients are tested with tables show.
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
        """Each kept model on each of its sets with images: keys of its rows, model [P + Q], positions."""
        for model in self.models():
            for client, split, index in model.sets:
                if len(index) and split in splits:
                    yield self.key(model, client, split), model.row, index

    def of_clients(self, stage: Stage = "reported") -> dict[int, Kept]:
        """One model of each client, by its number: where all clients have the same, that.

        stage: the reported one ("post_agg" stands in where it was not kept), the one right after local
        training, or the one after aggregation. Raises FedshiftError where the run kept none such.
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
            what = f"kept no model of its clients at the stage '{stage}'"
            cure = "Train it with evaluation.keep: clients."
            if self.round == 0:
                what = f"reports its start, where no client has a model of the stage '{stage}'"
                cure = "Train more rounds, or ask for the stage 'reported'."
            raise FedshiftError("evaluation", what, cure)
        return chosen

    def key(self, kept: Kept, client: int | None, split: str | None) -> Row:
        """The keys of a row about a model on a client's images; None: about all clients together."""
        values = self.round, kept.stage, kept.model, kept.member, client, split
        return dict(zip(KEYS, values, strict=True))

    def images(self, index: Tensor, size: int = BATCH) -> Iterator[tuple[Tensor, Tensor]]:
        """Images as a model sees them, and labels, at positions `index` in batches of `size`."""
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
    """hp: its parameters; method: the method that trained the run, with that run's.

    name, version: of the registry; version counts up when results change
    Params: a frozen dataclass of its parameters
    columns: of its table, behind those that say which model on which images
        (fedshift.federation.records.KEYS)
    adapts: it changes the models by the held-out images first, and gives accuracy and loss: `adapt` in an
        experiment makes it a row of tables
    quantities: name -> what tables and claims call a number that `quantity` makes of a run's table
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
        """Raises FedshiftError at `where` for a network, as the method wants it, that this cannot work on.

        Called when a run is planned, too: tensors may have no values.
        """

    def rows(self, run: Trained) -> Iterator[Row]:
        """The rows of its table: KEYS and `columns`. Draws only from fedshift.federation.batches."""
        raise NotImplementedError

    @staticmethod
    def quantity(table: pd.DataFrame, name: str) -> float:
        """One of `quantities` of the table of a run, NaN where it is not defined."""
        raise NotImplementedError

    @staticmethod
    def line(table: pa.Table) -> str:
        """What the command line says of a table when it is written."""
        return f"{len(table)} rows"

    def table(self, run: Trained) -> pa.Table:
        """All rows of a run."""
        return pa.Table.from_pylist([*self.rows(run)], self.schema())

    @classmethod
    def schema(cls) -> pa.Schema:
        """The columns of its table, with KEYS in front."""
        return pa.schema({**KEYS, **cls.columns})


def write(path: Path, table: pa.Table, origin: Row) -> None:
    """Write a table with its origin (what it was computed from), atomically."""
    with atomic_path(path) as temporary:
        stamped = table.replace_schema_metadata({"made": json.dumps(origin)})
        pq.write_table(stamped, temporary, compression="zstd")


def read(path: Path) -> tuple[pa.Table, Row]:
    """What `write` wrote."""
    table = read_parquet(path)
    return table.replace_schema_metadata(), json.loads(table.schema.metadata[b"made"])
