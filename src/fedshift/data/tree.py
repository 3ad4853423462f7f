"""A data set whose raw files are a tree `domain/class/image`."""

import functools
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import product
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from PIL import Image, ImageOps
from PIL.TiffImagePlugin import TiffImageFile  # Pillow loads these two late
from PIL.WebPImagePlugin import WebPImageFile

from fedshift.common.errors import FedshiftError
from fedshift.common.files import read_json, sha256_file, write_json
from fedshift.data.dataset import Dataset, missing_tree, rows
from fedshift.data.lists import WORDS, lists_file, read_lists

SUFFIXES = frozenset(
    {".bmp", ".gif", ".jfif", ".jpe", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp"}
)
# No other decoder of Pillow is used, whatever a file's name: EPS would start Ghostscript.
FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", TiffImageFile.format, WebPImageFile.format)
LITTER = re.compile(r"\..*|thumbs\.db|desktop\.ini|__macosx", re.IGNORECASE | re.DOTALL)  # hidden
PIXELS = 80_000_000  # of an image: a small file may unpack to more than the memory
SIXTEEN_BIT = frozenset({"I", "F", "I;16", "I;16B", "I;16L", "I;16N"})
CONTRAST = 16  # of 255: a smaller contrast is not visible
SHOWN = 20
DEPTH = 3  # folders around the tree in an archive


class ImageTree(Dataset):
    """Base of data sets that are folders of images.

    A folder is identified by its name without regard to case, spaces, hyphens and underscores. Hidden files,
    Thumbs.db and files outside the class folders that are not images (a README) are ignored; all others must
    fit the tree.

    - spellings: other names of a folder (laptop -> laptop_computer)
    - levels: names of folders that may be between a domain and its classes; the name of a split (train, val)
      is the official split of the images below
    - passed_over: names of folders to skip
    - every_class: whether every domain must have every class
    """

    spellings: ClassVar[Mapping[str, str]] = {}
    levels: ClassVar[tuple[str, ...]] = ("images",)
    passed_over: ClassVar[frozenset[str]] = frozenset()
    every_class: ClassVar[bool] = True

    def root(self, folder: Path) -> Path:
        """The shallowest folder, at most three levels down, that contains a domain's folder."""
        if not self.domains:
            return folder
        for depth in range(DEPTH + 1):
            for path in below(folder, depth):
                if any(self._name(child) in self.domains for child in within(path) if child.is_dir()):
                    return path
        cure = f"Give the folder that holds {', '.join(self.domains)}."
        raise FedshiftError(folder, f"is not a tree of {self.name}: no domain's folder in it", cure)

    def canonical(self, path: str) -> str:
        """`domain/class/file` with folders in the names used here."""
        *folders, file = path.split("/")
        return "/".join([*(self._name(Path(folder)) for folder in folders), file])

    def paths(self, raw: Path) -> list[str]:
        return [*self.files(raw)]

    def files(self, raw: Path) -> dict[str, Path]:
        return self._in_order(raw, self._look(raw)[0])

    def _in_order(self, raw: Path, files: Mapping[str, Path]) -> dict[str, Path]:
        """Those of `files` that belong to the release, in canonical order."""
        names = self.domains_and_classes(raw)
        domains, classes = ({name: place for place, name in enumerate(kind)} for kind in names)
        listed = self._listed(raw) if self.facts(raw).listed_only else None

        def order(path: str) -> tuple[int, str, int, str, str]:
            domain, label, file = path.split("/", 2)
            return domains.get(domain, len(domains)), domain, classes.get(label, len(classes)), label, file

        paths = (path for path in files if listed is None or path in listed)
        return {path: files[path] for path in sorted(paths, key=order)}

    def content(self, raw: Path, path: str) -> bytes:
        return self._locate(raw, path).read_bytes()

    def image(self, raw: Path, path: str) -> Image.Image:
        return read_image(self._locate(raw, path))

    def index(self, raw: Path) -> pd.DataFrame:
        """As `Dataset.index`; `split` is from folders or lists, `group` numbers sets of byte-identical files.

        Raises FedshiftError for a missing or empty class folder, an unexpected folder, and a file that is
        empty or not an image. It also raises it for lists that are absent or name absent images.
        """
        found, problems = self._look(raw)
        listed, files = self._listed(raw), self._in_order(raw, found)
        if problems := problems + self._missing(raw, found, files, listed):
            more = [f"... and {len(problems) - SHOWN} more"] if len(problems) > SHOWN else []
            what = "\n  ".join([f"is not a tree of {self.name}:", *problems[:SHOWN], *more])
            raise FedshiftError(raw, what, "Fix these and run the same command again.")
        frame = rows([*files], self.domains_and_classes(raw)[1])
        # of domain/class/split/file, or of the lists
        frame["split"] = ["".join(path.split("/")[2:-1]) or listed.get(path, "") for path in files]
        sizes = pd.Series([file.stat().st_size for file in files.values()])
        alike = pd.Series([*files.values()])[
            sizes.duplicated(keep=False)
        ]  # only files of equal size are read
        hashes = alike.map(sha256_file)
        copies = hashes[hashes.duplicated(keep=False)]
        frame.loc[copies.index, "group"] = pd.factorize(copies)[0].astype("int32")
        return frame

    def _listed(self, raw: Path) -> dict[str, str]:
        facts = self.facts(raw)
        path = lists_file(raw, facts.lists)
        if path is None and facts.listed_only:
            command = f"fedshift fetch {self.name} --release {raw.name} --from DIR --lists FOLDER"
            what = "its lists are not part of the project: they must be given"
            raise FedshiftError(raw, what, f"{facts.source}. Then: {command}")
        return read_lists(path) if path else {}

    def _missing(
        self, raw: Path, files: Mapping[str, Path], paths: Iterable[str], listed: Iterable[str]
    ) -> list[str]:
        """Lines that name domains and classes without an image, and missing files of a release."""
        domains, classes = self.domains_and_classes(raw)
        cells = {tuple(path.split("/")[:2]) for path in paths}
        absent, broken = list[str](), left_out(raw).broken
        if self.facts(raw).listed_only:
            expected = (path for path in listed if path.split("/")[1] in classes and path not in broken)
            absent = [f"listed and not there: {path}" for path in expected if path not in files]
        if not cells:
            return ["no images: expected domain/class/image", *absent]
        if self.every_class:
            lacking = ["/".join(cell) for cell in product(domains, classes) if cell not in cells]
        else:
            present = {part for cell in cells for part in enumerate(cell)}
            lacking = [name for name in domains if (0, name) not in present]
            lacking += [name for name in classes if (1, name) not in present]
        return [*(f"no images in {name}" for name in lacking), *absent]

    def _look(self, raw: Path) -> tuple[dict[str, Path], list[str]]:
        """Images, `domain/class/[split/]file` -> path; and a line for each path outside the layout."""
        if not raw.is_dir():
            raise missing_tree(self, raw, raw.name)
        domains, classes = self.domains_and_classes(raw)
        ignored, apart = self.passed_over.difference(classes), left_out(raw)
        files, folders, problems = dict[str, Path](), dict[str, Path](), list[tuple[str, Path]]()

        def misplaced(path: Path) -> None:
            if path.is_dir():
                problems.append(("unexpected folder", path))
            elif path.suffix.lower() in SUFFIXES and not apart.ignores(raw, path):
                problems.append(("image outside a class folder", path))

        for place in within(raw):
            domain = self._name(place)
            known = domain in domains
            if not known and domain not in ignored:
                misplaced(place)
            for split, folder in self._inside(place):
                label = self._name(folder)
                if ignored & {domain, label}:
                    continue
                named = known and label in classes
                if known and not named:
                    misplaced(folder)
                cell = "/".join(filter(None, (domain, label, split)))
                if folder.is_dir() and folders.setdefault(cell, folder) != folder:
                    what = f"{folders[cell].relative_to(raw)} and {folder.relative_to(raw)} are both {cell}"
                    raise FedshiftError(raw, what, "Keep one of the two folders.")
                for path in within(folder):
                    name = f"{cell}/{path.name}"
                    if name in apart.broken or apart.ignores(raw, path):
                        continue
                    if path.suffix.lower() in SUFFIXES and path.is_file():
                        files[name] = path
                        if named and not path.stat().st_size:
                            problems.append(("empty file", path))
                    elif named:
                        problems.append(("unexpected folder" if path.is_dir() else "not an image", path))
        return files, [f"{what}: {path.relative_to(raw).as_posix()}" for what, path in problems]

    def _inside(self, domain: Path) -> Iterator[tuple[str, Path]]:
        """The paths that should be class folders of a domain, each after its official split or ""."""
        for path in within(domain):
            if path.name in self.levels and path.is_dir():
                yield from ((path.name if path.name in WORDS else "", inner) for inner in within(path))
            else:
                yield "", path

    def _locate(self, raw: Path, path: str) -> Path:
        domain, label, *split, file = path.split("/")
        home = self._child(raw, domain)
        levels = (level for level in self.levels if level not in WORDS)
        bases = [home / word for word in split] or [home, *(home / level for level in levels)]
        places = (self._child(base, label) / file for base in bases)
        return next((place for place in places if place.is_file()), home / label / file)

    def _child(self, folder: Path, name: str) -> Path:
        """The folder in `folder` that is identified by `name`."""
        if (folder / name).is_dir() or not folder.is_dir():
            return folder / name
        return next((path for path in within(folder) if self._name(path) == name), folder / name)

    def _name(self, folder: Path) -> str:
        return self._names.get(_plain(folder.name), folder.name)

    @functools.cached_property
    def _names(self) -> dict[str, str]:
        ours = {_plain(name): name for name in (*self.domains, *self.classes, *self.passed_over)}
        return ours | {_plain(other): name for other, name in self.spellings.items()}


def read_image(path: Path) -> Image.Image:
    """The upright image of a file, mode RGB, in its own size.

    Raises OSError or ValueError with the reason if it cannot be read.
    """
    with Image.open(path, formats=FORMATS) as file:
        if file.width * file.height > PIXELS:
            raise ValueError(f"{file.width} x {file.height} pixels are more than {PIXELS:,}")
        return upright(file)


def upright(image: Image.Image) -> Image.Image:
    """An image as runs see it: turned as its EXIF data say, 8 bits, opaque, mode RGB.

    Raises ValueError for values that are not finite.
    """
    turned = ImageOps.exif_transpose(image)
    if image.mode in SIXTEEN_BIT:
        return Image.fromarray(eight_bit(np.asarray(turned))).convert("RGB")
    return _opaque(turned)


def eight_bit(values: NDArray[Any]) -> NDArray[np.uint8]:
    """Scale grey values [h, w] of more than 8 bits to uint8: the image's darkest is 0, its brightest 255.

    An image of one value is black. Raises ValueError for values that are not finite.
    """
    low, high = float(values.min()), float(values.max())
    if not (math.isfinite(low) and math.isfinite(high)):
        raise ValueError("has values that are not finite")
    scale = 255 / (high - low) if high > low else 0.0
    return ((values.astype(np.float64) - low) * scale).round().astype(np.uint8)


def _opaque(image: Image.Image) -> Image.Image:
    """The image in RGB; transparent pixels become white, or black if nothing can be seen on white."""
    if not image.has_transparency_data:
        return image.convert("RGB")
    layer = image.convert("RGBA")
    grounds = (Image.new("RGBA", layer.size, colour) for colour in ("white", "black"))
    on_white, on_black = (Image.alpha_composite(ground, layer).convert("RGB") for ground in grounds)
    # the widest range of a channel, from 0 to 255
    white, black = (np.ptp(image.getextrema(), axis=1).max() for image in (on_white, on_black))
    return on_black if white < CONTRAST <= black else on_white


def within(folder: Path) -> list[Path]:
    """Visible content of `folder`, sorted; empty if it is a file."""
    if not folder.is_dir():
        return []
    return [folder / name for name in sorted(os.listdir(folder)) if not LITTER.fullmatch(name)]


def below(folder: Path, depth: int) -> list[Path]:
    """Visible files and folders exactly `depth` levels below `folder`, sorted."""
    paths = [folder]
    for _ in range(depth):
        paths = [inner for path in paths for inner in within(path)]
    return paths


def _plain(name: str) -> str:
    return name.lower().replace(" ", "").replace("-", "").replace("_", "")


@dataclass(frozen=True)
class LeftOut:
    """Files left out of a tree.

    - ignored: patterns of a path in the tree, or of a file's name (`*.txt`, `day/*/small_*`)
    - broken: path `domain/class/file` -> why it cannot be read
    """

    ignored: tuple[str, ...] = ()
    broken: Mapping[str, str] = field(default_factory=dict)

    def ignores(self, raw: Path, path: Path) -> bool:
        """Whether a pattern matches a path in the tree, or its name."""
        names = [str(path.relative_to(raw)), path.name] if self.ignored else []
        return any(fnmatchcase(name, glob) for name in names for glob in self.ignored)

    def write(self, raw: Path) -> None:
        """Write the note next to the tree, or delete it if nothing is left out."""
        if self.ignored or self.broken:
            write_json(note(raw), {"ignored": list(self.ignored), "broken": dict(self.broken)})
        else:
            note(raw).unlink(missing_ok=True)


def left_out(raw: Path) -> LeftOut:
    """The files left out of the tree at `raw`. Raises FedshiftError if the note is damaged."""
    known = read_json(note(raw), "Give --ignore and --skip-broken again.") or {}
    return LeftOut(tuple(known.get("ignored", ())), dict(known.get("broken", {})))


def note(raw: Path) -> Path:
    """Path of the note on files left out of a tree."""
    return raw.with_name(f"{raw.name}.left_out.json")
