"""Renderings: images that a method makes from the clients' training images before training."""

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedshift.storage.weights import WeightsFile


class Rendering:
    """Base of all renderings; `Params`: a frozen dataclass whose fields the method that uses it also has."""

    name: ClassVar[str]
    version: ClassVar[int] = 1
    Params: ClassVar[type]

    def __init__(self, params: Any) -> None:
        self.params = params

    @property
    def copies(self) -> int:
        """Number of images that replace each training image."""
        return 1

    @property
    def weights(self) -> tuple[WeightsFile, ...]:
        """Published files that it reads; the owner of the default ones is the rendering's name."""
        return ()

    def render(
        self, pixels: NDArray[np.uint8], table: pd.DataFrame, seed: int
    ) -> Iterator[tuple[int, NDArray[np.uint8]]]:
        """Yield (sample, image [px, px, 3]) for every image to train on.

        `table` is the partition, `pixels` [n, px, px, 3] the prepared images.
        """
        raise NotImplementedError
