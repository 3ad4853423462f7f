"""T-SNE: a map of the features of all clients' images, one for each run.

t-distributed stochastic neighbour embedding (van der Maaten & Hinton, JMLR 2008), by scikit-learn. Features
are the input of the head, each divided by its length, as in `distances`. The map starts from the principal
components.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from fedshift.common.errors import FedshiftError
from fedshift.evaluations._images import OfClients, pooled
from fedshift.evaluations.base import Evaluation, Row, Trained


@dataclass(frozen=True)
class Params(OfClients):
    """`seed`: random seed of the sample of images, and of the map.
    `perplexity`: about the number of neighbours of an image, at most a third of all images.
    """

    perplexity: float = 30.0


class TSNE(Evaluation):
    """One row for each image.

    `sample`: its position in the decoded images.
    `x`, `y`: its place on the map.
    """

    name = "tsne"
    Params = Params
    columns = {
        "sample": pa.int32(), "domain": pa.string(), "label": pa.int16(), "class": pa.string(),
        "x": pa.float32(), "y": pa.float32(),
    }  # fmt: skip

    def rows(self, run: Trained) -> Iterator[Row]:
        from sklearn import manifold

        hp, models = self.hp, run.of_clients(self.hp.stage)
        pool = pooled(run, models, hp)
        count = len(pool.label)
        if count < 5:
            what = f"{count} images make no map"
            raise FedshiftError("evaluation tsne", what, "Name more images or other splits.")
        perplexity = min(hp.perplexity, (count - 1) / 3)
        fit = manifold.TSNE(perplexity=perplexity, init="pca", random_state=hp.seed, n_jobs=1)
        places = fit.fit_transform(pool.features.float().numpy())
        columns = pool.client.tolist(), pool.sample.tolist(), pool.label.tolist(), pool.domain, places
        for client, sample, label, domain, (x, y) in zip(*columns, strict=True):
            yield {
                **run.key(models[client], client, None), "sample": sample, "domain": domain, "label": label,
                "class": run.classes[label], "x": float(x), "y": float(y),
            }  # fmt: skip
