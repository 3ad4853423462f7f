"""Images as a run sees them: `fedshift.load_data`."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedshift.api._arguments import Root, plain, release, say, settings_of
from fedshift.api._arguments import workspace as workspace_of
from fedshift.data.partition import load_partition
from fedshift.data.prepare import load_prepared
from fedshift.experiments.declare import PROTOCOL, spec_of
from fedshift.training.provide import images, provide


@dataclass(frozen=True)
class Data:
    """Decoded images and their partition among clients.

    `images`: uint8 [n, px, px, 3] in RGB, a read-only memory map.
    `table`: one row per image, in the order of `images`, with the columns below.
    `classes`: their names; a label is an index into them.

    Columns of `table`:

    `sample`: the image's index.
    `client`: the client that holds it; -1 for images of the held-out domain, or of no client.
    `domain`, `class`, `label`: of the image.
    `split`: "train", "val", "test", "target" (tested, of the held-out domain) or "unused".
    """

    images: NDArray[np.uint8]
    table: pd.DataFrame
    classes: list[str]

    def of(self, **values: Any) -> NDArray[np.uint8]:
        """The images [m, px, px, 3] of the rows of `table` with these values: `of(domain="ink", label=3)`."""
        rows = np.ones(len(self.table), dtype=bool)
        for column, value in values.items():
            rows &= (self.table[column] == value).to_numpy()
        return self.images[rows]


def load_data(
    name: str | os.PathLike[str],
    target: str | None = None,
    *,
    seed: int = 0,
    protocol: str = PROTOCOL,
    settings: Mapping[str, Any] | None = None,
    root: Root = None,
) -> Data:
    """The images of a data set, partitioned among clients as in runs of this seed.

    They are fetched, decoded and partitioned first if necessary.

    `name`: "digits", "vlcs:domainbed", "folder:PATH", or the `Path` of a folder.
    `target`: the held-out domain.
    `protocol`, `settings`: as in `fedshift.run`.
    `root`: the project's folder; by default the present folder, or the first one above it that is a project.

    Raises FedshiftError for images that must be downloaded by hand, with instructions.

    >>> data = fedshift.load_data("digits", target="ink")
    >>> data.images.shape
    (1797, 32, 32, 3)
    >>> data.table.groupby("domain")["client"].first().to_dict()
    {'ink': -1, 'outline': 2, 'plain': 0, 'texture': 1}
    """
    workspace, where = workspace_of(root), release(name, "load_data")
    declared = plain({"target": target, "seed": seed, "protocol": protocol})
    spec = spec_of(workspace, "fedavg", where, settings=settings_of(settings), **declared)
    provide(workspace, spec, where.tree, say)
    prepared = load_prepared(images(workspace, spec))
    table, _ = load_partition(workspace.partition(spec.partition_name), prepared.index)
    return Data(prepared.pixels, table, list(prepared.facts["classes"]))
