"""Address: one word that names images on a command line, `pacs`, `pacs:hfedf` or `folder:clinics`."""

from __future__ import annotations

import os
import re
import shlex
import unicodedata
from pathlib import Path
from typing import NamedTuple

from fedshift.common.errors import FedshiftError
from fedshift.common.registry import get


class Address(NamedTuple):
    """A release of a data set.

    dataset, release: their names
    tree: the user's own folder that is to become it; None where the release is known by its name alone
    """

    dataset: str
    release: str = "original"
    tree: Path | None = None

    def __str__(self) -> str:
        return self.dataset if self.release == "original" else f"{self.dataset}:{self.release}"


def address(text: str, where: str = "--data") -> Address:
    """The release that `DATASET[:RELEASE]` names. Where a data set takes any tree (`folder`), RELEASE may be
    a folder's path, and the release is called like the folder; `NAME=PATH` gives it another name. A path may
    begin with ~ or hold $VARIABLES.

    Raises FedshiftError at `where` for an unknown data set or release, and for a tree that takes no name.
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
    """How to give a tree another name."""
    path = shlex.quote(str(tree))
    return (
        f"Name it: --data {dataset}:NAME={path} (or fedshift fetch {dataset} --release NAME --from {path})."
    )


def _expanded(path: str) -> Path:
    return Path(path) if Path(path).is_dir() else Path(os.path.expandvars(path)).expanduser()


def _name_of(tree: Path) -> str:
    """A folder's name in ASCII letters and digits; where it has none, in those of its own script."""
    name = unicodedata.normalize("NFC", tree.resolve().name)
    return re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-") or re.sub(r"[^\w-]+", "-", name).strip("-")
