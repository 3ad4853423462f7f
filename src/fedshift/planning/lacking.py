"""Requirements that are missing on this machine: published weights and official lists.

Runs without them cannot train here; this is reported before they begin.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from fedshift.common.registry import get
from fedshift.data.lists import WORDS, lists_file
from fedshift.data.tree import ImageTree
from fedshift.spec import RunSpec
from fedshift.storage.weights import WeightsFile, of_model
from fedshift.storage.workspace import Workspace


@dataclass(frozen=True)
class Lack:
    """A missing requirement: its kind ("weights", "lists"), what it is, and how to get it."""

    kind: str
    what: str
    cure: str


def lacking(workspace: Workspace, specs: Iterable[RunSpec]) -> Counter[Lack]:
    """The missing requirements of resolved specs, with the number of specs for each."""
    return Counter(lack for spec in specs for lack in _lacks(workspace, spec))


def messages(lacks: Counter[Lack]) -> list[str]:
    """A line of text for each missing requirement."""
    return [
        f"Cannot run here: {count} of these runs, for want of {lack.what}. To get it: {lack.cure}"
        for lack, count in lacks.items()
    ]


def needed_weights(workspace: Workspace, spec: RunSpec) -> list[WeightsFile]:
    """The published files that a run reads; those of a rendering only until its images are rendered."""
    start, rendering = spec.model.init, spec.rendering
    files = [of_model(get("models", spec.model.name), start)] if start != "scratch" else []
    if rendering is not None and not workspace.rendered(spec.rendered_name).exists():
        files += rendering.weights
    return files


def _lacks(workspace: Workspace, spec: RunSpec) -> Iterator[Lack]:
    """Missing weights, then missing official lists; `partition` checks that these name every image."""
    for file in needed_weights(workspace, spec):
        if not file.path.is_file():
            yield Lack("weights", f"{file.name} in {file.path.parent}", file.cure)
    name, release = spec.data.dataset, spec.data.release
    dataset = get("datasets", name)()
    official = spec.partition.split == "official" or spec.partition.target_split == "test"
    if not isinstance(dataset, ImageTree):
        if official and dataset.embedded:
            what, cure = f"official lists, of which {name} has none", "use partition.split: random"
            yield Lack("lists", what, cure)
        return
    facts = dataset.release(release)
    if facts.listed_only or (official and not {*WORDS} & {*dataset.levels}):
        lists = lists_file(workspace.raw(name, release), facts.lists)
        there = lists is not None and lists.exists()
        if not there and not workspace.prepared(spec.data.prepared_name).exists():
            command = f"fedshift fetch {name} --release {release} --lists FOLDER"
            yield Lack("lists", f"the official lists of {name} {release}", command)
