"""Figure: what every figure is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from fedshift.analysis.collection.collected import Collected
from fedshift.analysis.drawing.panels import Panels
from fedshift.experiments.schema import Experiment
from fedshift.storage.workspace import Workspace


@dataclass(frozen=True)
class NoParams:
    """Of a figure without parameters."""


class Figure:
    """A figure of an experiment's results; drawing it draws no random number and writes no file.

    name: its name in experiments and in file names
    evaluations: what it draws of kept weights (fedshift.evaluations): the experiment must ask for each;
        fedshift.analysis.collection.evaluated.results_of reads them
    Params: a frozen dataclass of its parameters, with defaults; `self.params` in an object
    """

    name: ClassVar[str] = ""
    evaluations: ClassVar[tuple[str, ...]] = ()

    Params: ClassVar[type] = NoParams

    def __init__(self, params: Any) -> None:
        self.params = params

    def check(self, experiment: Experiment, axes: Mapping[str, Sequence[Any]], where: str) -> None:
        """Raise FedshiftError at `where` for a parameter that the experiment cannot serve.

        Called when the experiment is planned, before anything is trained. axes: the values on each axis, by
        the name that tables use.
        """

    def panels(self, workspace: Workspace, collected: Collected) -> Panels:
        """What it shows of the collected results. workspace: for published numbers.

        Raises FedshiftError where there is nothing to draw.
        """
        raise NotImplementedError
