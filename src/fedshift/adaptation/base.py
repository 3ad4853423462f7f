"""What an adaptation is: a change of a trained model by the images, not the labels, that it is then tested
on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

from torch import Tensor

from fedshift.federation.layout import Layout
from fedshift.federation.method import Method, NoParams
from fedshift.federation.network import Network
from fedshift.models.base import Model

Batches = Callable[[int], Iterator[Tensor]]


class Adaptation:
    """hp: its own parameters; method: the method that trained the model, with the parameters of that run."""

    name: ClassVar[str]
    version: ClassVar[int] = 1
    Params: ClassVar[type] = NoParams

    def __init__(self, hp: Any, method: Method) -> None:
        self.hp, self.method = hp, method

    @classmethod
    def check(cls, model: Model, where: object) -> None:
        """Raises FedshiftError at `where` for a model, as the method wants it, that this cannot adapt."""

    def adapt(self, network: Network, layout: Layout, batches: Batches) -> None:
        """Change the row that `network` is bound to, in place, in fp32.

        batches(size): all images once, x [size, 3, h, w] as they are tested, in fixed order; the last batch
        may be smaller, but a single image is left out. Raises FedshiftError for a model that it cannot adapt.
        """
        raise NotImplementedError
