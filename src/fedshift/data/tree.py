"""A data set whose raw files are a tree `domain/class/image`."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import ClassVar

import pandas as pd
from PIL import Image, ImageOps

from fedshift.data.dataset import Dataset, missing_tree
from fedshift.errors import FedshiftError

SUFFIXES = frozenset({".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp"})
LITTER = frozenset({"thumbs.db", "desktop.ini"})
SIXTEEN_BIT = frozenset({"I", "F", "I;16", "I;16B", "I;16L", "I;16N"})
SHOWN = 20


class ImageTree(Dataset):
    """Base of data sets that are folders of images.

    `spellings` maps a folder's name in some releases to the name used here (Caltech -> caltech). Hidden
    files, Thumbs.db and anything that is no image outside the class folders (a README) are passed over; all
    else must fit the tree.
    """

    spellings: ClassVar[Mapping[str, str]] = {}
    every_class: ClassVar[bool] = True  # every domain must hold every class

    def paths(self, raw: Path) -> list[str]:
        domains, classes = self.domains_and_classes(raw)
        places = [{name: place for place, name in enumerate(names)} for names in (domains, classes)]

        def order(path: str) -> tuple[int, str, int, str, str]:
            domain, label, file = path.split("/")
            return (
                places[0].get(domain, len(domains)),
                domain,
                places[1].get(label, len(classes)),
                label,
                file,
            )

        return sorted(self._files(raw), key=order)

    def content(self, raw: Path, path: str) -> bytes:
        return self._locate(raw, path).read_bytes()

    def image(self, raw: Path, path: str) -> Image.Image:
        with Image.open(self._locate(raw, path)) as file:
            if file.mode in SIXTEEN_BIT:
                raise ValueError(f"mode {file.mode} has more than 8 bits a channel: save it with 8")
            return ImageOps.exif_transpose(file).convert("RGB")

    def index(self, raw: Path) -> pd.DataFrame:
        """As `Dataset.index`; `group` numbers the sets of byte-identical files.

        Raises FedshiftError for a missing or empty class folder, an unexpected folder, and a file that is no
        image.
        """
        self._check(raw)
        frame = super().index(raw)
        groups = _duplicates({path: self._locate(raw, path) for path in frame["path"]})
        frame["group"] = pd.Series([groups.get(path, -1) for path in frame["path"]], dtype="int32")
        return frame

    def _check(self, raw: Path) -> None:
        domains, classes = self.domains_and_classes(raw)
        cells = {(path.parts[0], path.parts[1]) for path in map(PurePosixPath, self._files(raw))}
        if self.every_class:
            lacking = [
                f"{domain}/{label}" for domain in domains for label in classes if (domain, label) not in cells
            ]
        else:
            lacking = [name for name in domains if all(name != domain for domain, _ in cells)]
            lacking += [name for name in classes if all(name != label for _, label in cells)]
        problems = self._strangers(raw, domains, classes) + [f"no images in {name}" for name in lacking]
        if not cells:
            problems = ["no images: expected domain/class/image"]
        if problems:
            more = [f"... and {len(problems) - SHOWN} more"] if len(problems) > SHOWN else []
            what = "\n  ".join([f"is not a tree of {self.name}:", *problems[:SHOWN], *more])
            raise FedshiftError(raw, what, "Mend these and run the same command again.")

    def _strangers(self, raw: Path, domains: tuple[str, ...], classes: tuple[str, ...]) -> list[str]:
        """Lines that name folders and files which do not belong in the tree."""

        def unexpected(path: Path, valid: tuple[str, ...]) -> str | None:
            if path.is_dir():
                return None if self._name(path) in valid else "unexpected folder"
            return "image outside a class folder" if path.suffix.lower() in SUFFIXES else None

        def foreign(path: Path) -> str | None:
            if path.is_dir():
                return "unexpected folder"
            return None if path.suffix.lower() in SUFFIXES else "not an image"

        top = below(raw, 1)
        inner = [path for folder in top if not unexpected(folder, domains) for path in within(folder)]
        leaves = [path for folder in inner if not unexpected(folder, classes) for path in within(folder)]
        found = [(unexpected(path, domains), path) for path in top]
        found += [(unexpected(path, classes), path) for path in inner]
        found += [(foreign(path), path) for path in leaves]
        return [f"{problem}: {path.relative_to(raw).as_posix()}" for problem, path in found if problem]

    def _files(self, raw: Path) -> dict[str, Path]:
        if not raw.is_dir():
            raise missing_tree(self, raw, raw.name)
        found: dict[str, Path] = {}
        folders: dict[str, Path] = {}
        for path in below(raw, 3):
            cell = f"{self._name(path.parent.parent)}/{self._name(path.parent)}"
            if folders.setdefault(cell, path.parent) != path.parent:
                what = f"{folders[cell].relative_to(raw)} and {path.parent.relative_to(raw)} are both {cell}"
                raise FedshiftError(raw, what, "Keep one of the two folders.")
            if path.suffix.lower() in SUFFIXES and path.is_file():
                found[f"{cell}/{path.name}"] = path
        return found

    def _locate(self, raw: Path, path: str) -> Path:
        domain, label, file = path.split("/")
        return self._spelled(self._spelled(raw, domain), label) / file

    def _spelled(self, folder: Path, name: str) -> Path:
        others = [other for other, ours in self.spellings.items() if ours == name]
        return next((folder / other for other in others if (folder / other).is_dir()), folder / name)

    def _name(self, folder: Path) -> str:
        return self.spellings.get(folder.name, folder.name)


def within(folder: Path) -> list[Path]:
    """What a user sees in `folder`, sorted; nothing if it is a file."""
    if not folder.is_dir():
        return []
    return sorted(
        path for path in folder.iterdir() if path.name[0] != "." and path.name.lower() not in LITTER
    )


def below(folder: Path, depth: int) -> list[Path]:
    """Visible files and folders exactly `depth` levels below `folder`, sorted."""
    inner = within(folder)
    return inner if depth == 1 else [path for each in inner for path in below(each, depth - 1)]


def _duplicates(files: Mapping[str, Path]) -> dict[str, int]:
    """Path -> number of its set of byte-identical files; only files of equal size are read."""
    by_size: dict[int, list[str]] = defaultdict(list)
    for name, path in files.items():
        by_size[path.stat().st_size].append(name)
    by_content: dict[bytes, list[str]] = defaultdict(list)
    for name in (name for names in by_size.values() if len(names) > 1 for name in names):
        by_content[hashlib.sha256(files[name].read_bytes()).digest()].append(name)
    order = {name: place for place, name in enumerate(files)}
    groups = sorted(
        (names for names in by_content.values() if len(names) > 1), key=lambda names: order[names[0]]
    )
    return {name: number for number, names in enumerate(groups) for name in names}
