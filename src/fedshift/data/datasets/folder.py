"""Your own images: any tree of folders domain/class/image."""

from pathlib import Path

from fedshift.common.errors import FedshiftError
from fedshift.data.dataset import Release, missing_tree
from fedshift.data.tree import DEPTH, SUFFIXES, ImageTree, below, within

LONGEST = 100  # bytes: file names of 255 begin with it


class Folder(ImageTree):
    """The release is the user's name for the tree; domains and classes are its folders, sorted.

    The classes are the union over the domains: a domain may have no sample of a class.
    """

    name = "folder"
    open_releases = True
    levels = ()
    every_class = False

    def release(self, name: str) -> Release:
        plain = name.replace("-", "").replace("_", "").replace(".", "").isalnum()
        if not plain or name.startswith(".") or len(name.encode(errors="replace")) > LONGEST:
            cure = f"Use letters, digits, - and _, at most {LONGEST}."
            raise FedshiftError(f"{self.name}: release", f"'{name}' cannot name a folder", cure)
        return Release(source="a folder of the user's", licence="the user's", citation="none")

    def root(self, folder: Path) -> Path:
        """The first folder with images as domain/class/image, below at most three single folders."""
        root = folder
        for _ in range(DEPTH):
            inner = [path for path in within(root) if path.is_dir()]
            if len(inner) != 1 or any(path.suffix.lower() in SUFFIXES for path in below(root, 3)):
                return root
            root = inner[0]
        return root

    def domains_and_classes(self, raw: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
        if not raw.is_dir():
            raise missing_tree(self, raw, raw.name)
        domains = tuple(path.name for path in below(raw, 1) if path.is_dir())
        classes = sorted({path.name for path in below(raw, 2) if path.is_dir()})
        return domains, tuple(classes)
