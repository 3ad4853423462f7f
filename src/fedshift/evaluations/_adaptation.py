"""Adaptation: a change of a trained model by the images, without labels, that it is then tested on."""

import functools
import time
from collections.abc import Callable, Iterator
from typing import Annotated

import pyarrow as pa
from pydantic import Field
from torch import Tensor

from fedshift.common.errors import FedshiftError
from fedshift.evaluations.base import Evaluation, Row, Trained
from fedshift.federation.evaluate import evaluate
from fedshift.federation.evaluator import TARGET
from fedshift.federation.layout import Layout, Network
from fedshift.federation.records import ADAPTED, KEYS, SCHEMA
from fedshift.spec.block import MOST

Batches = Callable[[int], Iterator[Tensor]]
BatchSize = Annotated[int, Field(ge=2, le=MOST)]  # a batch of a single image is left out
BEFORE = "post_agg"  # the stage of a model before ADAPTED
METRICS = ("accuracy", "loss")


class Adaptation(Evaluation):
    """An adaptation's records: accuracy and loss on the held-out domain, before and after.

    They are means over a method's models.
    """

    columns = {name: SCHEMA.field(name).type for name in SCHEMA.names if name not in KEYS}
    adapts = True

    def adapt(self, network: Network, layout: Layout, batches: Batches) -> None:
        """Change the weights that `network` is bound to, in place, in fp32.

        `batches`: batches(size) yields all images once, x [size, 3, h, w] as they are tested, in fixed order.
            The last batch may be smaller, but a single image is left out.

        Raises FedshiftError for a model that cannot be adapted.
        """
        raise NotImplementedError

    def rows(self, run: Trained) -> Iterator[Row]:
        every = [(model.row, *named) for model in run.models() for named in model.sets]
        held = [(row, index) for row, client, _, index in every if client == TARGET and len(index)]
        if not held:
            what = f"the run tests no image of '{run.spec.data.target}'"
            raise FedshiftError(f"adaptation {self.name}", what, "Use --full-domain.")
        models, index = [row for row, _ in held], held[0][1]
        before = _tested(run, models, index)
        for row in models:
            self.adapt(run.network.bind(row), run.layout, functools.partial(unlabelled, run, index))
        after = _tested(run, models, index)
        for stage, values in ((BEFORE, before), (ADAPTED, after)):
            key = run.round, stage, "global", 0, TARGET, "target"
            for metric, value in values.items():
                measured = {"metric": metric, "value": value, "n": len(index), "time": time.time()}
                yield dict(zip(KEYS, key, strict=True)) | measured

    @classmethod
    def line(cls, table: pa.Table) -> str:
        values = {(row["stage"], row["metric"]): f"{row['value']:.4f}" for row in table.to_pylist()}
        changes = [f"{of} {values[BEFORE, of]} -> {values[ADAPTED, of]}" for of in METRICS]
        return f"{table['n'][0].as_py()} images: {', '.join(changes)}"


def unlabelled(run: Trained, index: Tensor, size: int) -> Iterator[Tensor]:
    """The images at positions `index` in batches of `size`; a last single image is left out."""
    return (x for x, _ in run.images(index, size) if len(x) > 1)


def _tested(run: Trained, models: list[Tensor], index: Tensor) -> dict[str, float]:
    sets = [(TARGET, "target", index)]
    scored = [evaluate(run.network, row, run.samples, sets, run.precision)[0] for row in models]
    return {metric: sum(getattr(score, metric) for score in scored) / len(scored) for metric in METRICS}
