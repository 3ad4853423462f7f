"""Data set: named domains, ordered classes, releases, and one index in canonical order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pandas as pd
from PIL import Image

from fedshift.errors import FedshiftError, unknown

INDEX_TYPES = {
    "path": "str",
    "domain": "str",
    "class": "str",
    "label": "int16",
    "split": "str",
    "group": "int32",
}


@dataclass(frozen=True)
class Release:
    """One state of a data set: where it comes from, on what terms, and what it must contain.

    `manifest` is a file below reference/datasets; None where only the user can say what belongs to it
    (written by `fetch`). `url` is an archive whose folder `subfolder` (a glob) holds the domains; `contacted`
    tells whether this project ever reached that address.
    """

    source: str
    licence: str
    citation: str
    manifest: str | None = None
    url: str | None = None
    subfolder: str = "."
    sha256: str | None = None
    contacted: bool = False


class Dataset:
    """Base of all data sets.

    A path is `domain/class/file` in the names used here, whatever the raw folders are called.

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
