"""What a user leaves out of a tree: files that a pattern names, and images that cannot be read. Both stand in
data/raw/<dataset>/<release>.left_out.json, beside the tree, which may be a link; a manifest that is written
then does not have them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from PIL import Image
from tqdm import tqdm

from fedshift.common.files import read_json, write_json

CURE = "Give --ignore and --skip-broken again."


@dataclass(frozen=True)
class LeftOut:
    """ignored: patterns of a path in the tree, or of a file's name (`*.txt`, `day/*/small_*`)
    broken: path `domain/class/file` -> why it cannot be read
    """

    ignored: tuple[str, ...] = ()
    broken: Mapping[str, str] = field(default_factory=dict)

    def ignores(self, path: PurePosixPath) -> bool:
        """Whether a pattern names the path, relative to the tree."""
        return any(fnmatchcase(str(path), glob) or fnmatchcase(path.name, glob) for glob in self.ignored)

    def write(self, raw: Path) -> None:
        """Note it beside the tree; nothing left out is no file."""
        if self.ignored or self.broken:
            write_json(_file(raw), {"ignored": list(self.ignored), "broken": dict(self.broken)})
        else:
            _file(raw).unlink(missing_ok=True)


def left_out(raw: Path) -> LeftOut:
    """What is left out of the tree at `raw`. Raises FedshiftError where the file that says so is torn."""
    path = _file(raw)
    return _read(path, path.stat().st_mtime_ns) if path.exists() else LeftOut()


@functools.lru_cache(maxsize=4)
def _read(path: Path, time: int) -> LeftOut:
    known = read_json(path, CURE) or {}
    return LeftOut(tuple(known.get("ignored", ())), dict(known.get("broken", {})))


def _file(raw: Path) -> Path:
    return raw.with_name(f"{raw.name}.left_out.json")


def unreadable(paths: Sequence[str], image: Callable[[str], Image.Image]) -> dict[str, str]:
    """The paths whose image cannot be decoded, with the reason."""
    broken = {}
    for path in tqdm(paths, unit=" images", desc="read", disable=None):
        try:
            image(path)
        except Exception as error:  # a decoder may raise anything when a file is damaged
            broken[path] = f"{type(error).__name__}: {error}"
    return broken
