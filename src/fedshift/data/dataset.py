"""Data set: named domains, ordered classes, releases, and one index in canonical order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pandas as pd
from PIL import Image

from fedshift.common.errors import FedshiftError, unknown

INDEX_TYPES = {
    "path": "str",
    "domain": "str",
    "class": "str",
    "label": "int16",
    "split": "str",
    "group": "int32",
}


@dataclass(frozen=True)
class Archive:
    """A zip or tar file at a public address, never reached from here; `stated`: the source of the address."""

    url: str
    stated: str
    sha256: str | None = None


@dataclass(frozen=True)
class Release:
    """One state of a data set: where it comes from, on what terms, and what it must contain.

    `manifest`: a file below reference/datasets with every file's hash; None where this project never had the
    files (then `fetch` writes one from the user's tree). `archives` are downloaded; `by_hand` are addresses
    that a person must open, with the source that states each. `lists`: a file below reference/lists, path ->
    official split; `listed_only`: no other file belongs to the release. `complete`: the list names all files
    of the release. `counts`: published images per domain. `make(dataset, source, target)` derives the release
    from another tree.
    """

    source: str
    licence: str
    citation: str
    manifest: str | None = None
    archives: tuple[Archive, ...] = ()
    by_hand: tuple[str, ...] = ()
    lists: str | None = None
    listed_only: bool = False
    complete: bool = False
    counts: Mapping[str, int] | None = None
    make: Callable[[Dataset, Path, Path], None] | None = None


class Dataset:
    """Base of all data sets.

    A path is `domain/class/file` in the names used here, whatever the raw folders are called, or
    `domain/class/split/file` where the raw tree holds its official split as folders. `raw` is
    data/raw/<dataset>/<release>: its last part names the release.

    A data set says which paths a raw tree holds (`paths`), what their bytes are (`content`) and their pixels
    (`image`); `verify`, `prepare` and `partition` know no data set by name.
    """

    name: ClassVar[str]
    version: ClassVar[int] = 1
    domains: ClassVar[tuple[str, ...]] = ()
    classes: ClassVar[tuple[str, ...]] = ()
    releases: ClassVar[Mapping[str, Release]] = {}
    open_releases: ClassVar[bool] = False
    embedded: ClassVar[bool] = False  # comes with a library: no raw tree, nothing to fetch

    def release(self, name: str) -> Release:
        """The facts about a release; raises FedshiftError with the nearest valid name."""
        if name not in self.releases:
            raise unknown(self.name, "release", name, self.releases)
        return self.releases[name]

    def facts(self, raw: Path) -> Release:
        """The release that `raw` is named after; `original` for a tree elsewhere."""
        return self.releases.get(raw.name) or self.release("original")

    def root(self, folder: Path) -> Path:
        """Where the tree begins in an unpacked archive or a user's folder."""
        return folder

    def domains_and_classes(self, raw: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Domains and classes in their order; a label is a class's position."""
        return self.domains, self.classes

    def paths(self, raw: Path) -> list[str]:
        """Every image below `raw`: domains and classes in their order, file names sorted."""
        raise NotImplementedError

    def content(self, raw: Path, path: str) -> bytes:
        """The bytes that a manifest's hash covers."""
        raise NotImplementedError

    def image(self, raw: Path, path: str) -> Image.Image:
        """The upright image, mode RGB, in its own size.

        Raises OSError or ValueError with the reason where it cannot be read.
        """
        raise NotImplementedError

    def index(self, raw: Path) -> pd.DataFrame:
        """One row per image in canonical order.

        Columns path, domain, class, label, split ("" where there is none), group (-1: no duplicate known).
        """
        return rows(self.paths(raw), self.domains_and_classes(raw)[1])


def rows(paths: Sequence[str], classes: Sequence[str]) -> pd.DataFrame:
    """The index of `paths` (`domain/class/file`) with labels by position in `classes`."""
    parts = [path.split("/") for path in paths]
    labels = {name: label for label, name in enumerate(classes)}
    frame = pd.DataFrame(
        {
            "path": list(paths),
            "domain": [part[0] for part in parts],
            "class": [part[1] for part in parts],
            "label": [labels[part[1]] for part in parts],
            "split": "",
            "group": -1,
        }
    )
    return frame.astype(INDEX_TYPES)


def missing_tree(dataset: Dataset, raw: Path, release: str) -> FedshiftError:
    """The error for a raw tree that is not there."""
    return FedshiftError(raw, "no such folder", f"Run: fedshift fetch {dataset.name} --release {release}")
