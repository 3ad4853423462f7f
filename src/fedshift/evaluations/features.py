"""Features: the input of the head for some images of each client, with label, domain and prediction."""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from fedshift.evaluations._images import Count, drawn
from fedshift.evaluations.base import Evaluation, Row, Split, Trained


@dataclass(frozen=True)
class Params:
    """`images`: maximum number of images from a client's split, and from the held-out domain.
    `seed`: random seed of the sample, which is the same for all models and methods that test the same images.
    `splits`: "val", "test", "target".
    """

    images: Count = 200
    seed: int = 0
    splits: tuple[Split, ...] = ("test", "target")


class Features(Evaluation):
    """One row for each image.

    `sample`: its position in the decoded images.
    `feature`: the head's input, [F].
    """

    name = "features"
    Params = Params
    columns = {
        "sample": pa.int32(), "domain": pa.string(), "label": pa.int16(), "predicted": pa.int16(),
        "feature": pa.list_(pa.float32()),
    }  # fmt: skip

    def rows(self, run: Trained) -> Iterator[Row]:
        domains = run.domains()
        for place, row, index in run.sets(self.hp.splits):
            positions = drawn(index, self.hp.images, self.hp.seed, place["client"], place["split"])
            samples = iter(positions.tolist())
            for out, y in run.outputs(row, positions):
                batch = out.feature.cpu().numpy(), y.tolist(), out.logits.argmax(1).tolist()
                for feature, label, predicted in zip(*batch, strict=True):
                    sample = next(samples)
                    yield {
                        **place, "sample": sample, "domain": domains[sample], "label": label,
                        "predicted": predicted, "feature": feature,
                    }  # fmt: skip
