"""Address: one word that names images on a command line, `pacs`, `pacs:hfedf` or `folder:clinics`."""

from __future__ import annotations

import re
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
    a folder's path, and the release is called like the folder.

    Raises FedshiftError at `where` for an unknown data set or release, and for a tree that takes no name.
    """
    name, _, release = text.partition(":")
    dataset = get("datasets", name, where)
    if not dataset.open_releases:
        dataset().release(release or "original")
        return Address(name, release or "original")
    if not release:
        raise FedshiftError(where, f"'{name}' is any folder of yours", f"Name it: {name}:PATH.")
    tree = Path(release)
    if tree.is_dir():
        called = re.sub(r"[^A-Za-z0-9_-]+", "-", tree.resolve().name).strip("-")
        dataset().release(called)
        return Address(name, called, tree)
    if tree.name != release:
        raise FedshiftError(where, f"there is no folder '{release}'", "It must hold domain/class/image.")
    dataset().release(release)
    return Address(name, release)
