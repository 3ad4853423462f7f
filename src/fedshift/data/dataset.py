"""Data set: named domains, ordered classes, releases, one index, and its address on a command line."""

import os
import re
import shlex
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, NamedTuple

import pandas as pd
from PIL import Image

from fedshift.common.errors import FedshiftError, check_known
from fedshift.common.registry import get

INDEX_TYPES = {
    "path": "str", "domain": "str", "class": "str", "label": "int16", "split": "str", "group": "int32",
}  # fmt: skip


@dataclass(frozen=True)
class Archive:
    """A zip or tar file at a public address, untested; `stated`: the source of the address."""

    url: str
    stated: str
    sha256: str | None = None


@dataclass(frozen=True)
class Release:
    """One state of a data set: its source, its terms, and its expected content.

    - manifest: a file below reference/datasets with every file's hash; None if this project never had the
      files (then `fetch` writes one from the user's tree)
    - archives: files to download
    - by_hand: addresses that a person must open, with the source that states each
    - lists: a file below reference/lists, path -> official split
    - listed_only: no other file belongs to the release
    - complete: the list names all files of the release
    - counts: published images per domain
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


class Dataset:
    """Base of all data sets.

    A path is `domain/class/file` in the names used here, whatever the names of the raw folders. It is
    `domain/class/split/file` if the raw tree has its official split as folders. `raw` is
    data/raw/<dataset>/<release>: its last part names the release.

    A data set provides the paths of a raw tree (`paths`), their bytes (`content`) and their pixels (`image`).
    `verify`, `prepare` and `partition` are the same for all data sets.
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
        check_known(self.name, "release", name, self.releases)
        return self.releases[name]

    def facts(self, raw: Path) -> Release:
        """The release that `raw` is named after; `original` for a tree at another place."""
        return self.releases.get(raw.name) or self.release("original")

    def root(self, folder: Path) -> Path:
        """The root of the tree in an unpacked archive or a user's folder."""
        return folder

    def domains_and_classes(self, raw: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Domains and classes in their order; a label is a class's position."""
        return self.domains, self.classes

    def paths(self, raw: Path) -> list[str]:
        """Every image below `raw`: domains and classes in their order, file names sorted."""
        raise NotImplementedError

    def files(self, raw: Path) -> dict[str, Path]:
        """Path -> file of every image in the order of `paths`; some may not be separate files."""
        return {path: raw / path for path in self.paths(raw)}

    def content(self, raw: Path, path: str) -> bytes:
        """The bytes of an image that a manifest's hash covers."""
        raise NotImplementedError

    def image(self, raw: Path, path: str) -> Image.Image:
        """The upright image, mode RGB, in its own size.

        Raises OSError or ValueError with the reason if it cannot be read.
        """
        raise NotImplementedError

    def index(self, raw: Path) -> pd.DataFrame:
        """One row per image in canonical order.

        The columns are path, domain, class, label, split ("" if there is none) and group (-1: no known
        duplicate).
        """
        return rows(self.paths(raw), self.domains_and_classes(raw)[1])


def rows(paths: Sequence[str], classes: Sequence[str]) -> pd.DataFrame:
    """The index of `paths` (`domain/class/file`) with labels by position in `classes`."""
    labels = {name: label for label, name in enumerate(classes)}
    parts = (path.split("/")[:2] for path in paths)
    table = [(path, domain, of, labels[of], "", -1) for path, (domain, of) in zip(paths, parts, strict=True)]
    return pd.DataFrame(table, columns=[*INDEX_TYPES]).astype(INDEX_TYPES)


def missing_tree(dataset: Dataset, raw: Path, release: str) -> FedshiftError:
    return FedshiftError(raw, "no such folder", f"Run: fedshift fetch {dataset.name} --release {release}")


class Address(NamedTuple):
    """A release of a data set.

    - dataset, release: their names
    - tree: the user's own folder that is to become it; None if the release is known by its name alone
    """

    dataset: str
    release: str = "original"
    tree: Path | None = None

    def __str__(self) -> str:
        return self.dataset if self.release == "original" else f"{self.dataset}:{self.release}"


def address(text: str, where: str = "--data") -> Address:
    """Parse `DATASET[:RELEASE]`.

    For a data set that takes any tree (`folder`), RELEASE may be a folder's path; the release is then named
    after the folder. `NAME=PATH` gives it another name. A path may begin with ~ or contain $VARIABLES.

    Raises FedshiftError at `where` for an unknown data set or release, and for a tree whose name cannot be
    used.
    """
    name, _, release = text.partition(":")
    dataset = get("datasets", name, where)
    if not dataset.open_releases:
        dataset().release(release or "original")
        return Address(name, release or "original")
    if not release:
        raise FedshiftError(where, f"'{name}' is any folder of yours", f"Name it: {name}:PATH.")
    tree, called = _expanded(release), ""
    if not tree.is_dir() and "=" in release:
        called, _, path = release.partition("=")
        tree = _expanded(path)
    if tree.is_dir():
        try:
            dataset().release(called := called or _name_of(tree))
        except FedshiftError as error:
            raise FedshiftError(where, error.what, renamed(name, tree)) from None
        return Address(name, called, tree)
    if tree.name != release:
        raise FedshiftError(where, f"there is no folder '{tree}'", "It must hold domain/class/image.")
    dataset().release(release)
    return Address(name, release)


def renamed(dataset: str, tree: Path) -> str:
    """Hint on how to give a tree another name."""
    path = shlex.quote(str(tree))
    by_fetch = f"fedshift fetch {dataset} --release NAME --from {path}"
    return f"Name it: --data {dataset}:NAME={path} (or {by_fetch})."


def _expanded(path: str) -> Path:
    return Path(path) if Path(path).is_dir() else Path(os.path.expandvars(path)).expanduser()


def _name_of(tree: Path) -> str:
    """A folder's name in ASCII letters and digits; if it has none, in those of its original script."""
    name = unicodedata.normalize("NFC", tree.resolve().name)
    return re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-") or re.sub(r"[^\w-]+", "-", name).strip("-")
