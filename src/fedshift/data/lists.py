"""Official lists of images for training, validation or test, by path."""

import gzip
import re
import zlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from fedshift.common.errors import FedshiftError
from fedshift.common.files import read_text, write_bytes

REFERENCE = Path(__file__).parents[3] / "reference" / "lists"
WORDS = ("train", "crossval", "val", "test")
NAME = re.compile(r"(?P<domain>.+?)(_(?P<word>train|crossval|val|test))?(_kfold)?\.txt")

# A label may follow the path. All names may contain spaces.
LINE = re.compile(r"(.*/)?(?P<path>[^/]+/[^/]+/[^/]+?\.\w+)([\s,]+\S+)?")


def own_lists(raw: Path) -> Path:
    """Path of the user's lists (`fetch --lists`): next to the tree, which may be a link."""
    return raw.with_name(f"{raw.name}.lists.csv.gz")


def lists_file(raw: Path, name: str | None) -> Path | None:
    """The lists for `raw`: the user's, else the project's file `name`; None if there are neither."""
    own = own_lists(raw)
    return own if own.exists() else REFERENCE / name if name else None


def read_lists(path: Path) -> dict[str, str]:
    """Path -> train, crossval, val, test, or "" if a list names files without a split."""
    return dict(read_table(path, {"path": "str", "split": "str"}, "Restore it, or give the lists anew."))


def read_table(path: Path, columns: dict[str, str], cure: str) -> list[tuple[Any, ...]]:
    """Rows of a compressed CSV file; `columns`: name -> dtype. Raises FedshiftError if it is not whole."""
    if not path.exists():
        raise FedshiftError(path, "no such list of files", cure)
    try:
        table = pd.read_csv(path, usecols=[*columns], dtype=columns, keep_default_na=False)
    except (EOFError, OSError, ValueError, zlib.error) as error:
        raise FedshiftError(path, f"is not whole: {error}", cure) from None
    return [*zip(*(table[name] for name in columns), strict=True)]


def write_table(path: Path, columns: Sequence[str], rows: Iterable[tuple[Any, ...]]) -> None:
    """Write a compressed CSV file atomically; the same rows give the same bytes."""
    text = pd.DataFrame(rows, columns=[*columns]).to_csv(index=False, lineterminator="\n")
    write_bytes(path, gzip.compress(text.encode(), mtime=0))


def gather(folder: Path, canonical: Callable[[str], str]) -> dict[str, str]:
    """Read text files `<domain>[_<split>][_kfold].txt` below `folder`: lines `.../domain/class/file [label]`.

    `canonical` maps `domain/class/file` to the names used here. A path on two lists gets the first of train,
    crossval, val, test, because PACS's `test` lists are the whole domain. Labels are not read: an image's
    class is its folder. Raises FedshiftError for a folder without such files, and for a line that is not a
    path.
    """
    splits: dict[str, str] = {}
    texts = ((path, NAME.fullmatch(path.name)) for path in folder.rglob("*.txt"))
    files = [(match["word"] or "", path) for path, match in texts if match]
    for word, path in sorted(files, key=lambda file: ([*WORDS, ""].index(file[0]), file[1])):
        for number, line in enumerate(read_text(path).splitlines(), start=1):
            if not line.strip():
                continue
            if not (found := LINE.fullmatch(line.strip())):
                what = f"'{line}' is not a path domain/class/file"
                raise FedshiftError(f"{path}:{number}", what, "Fix the list.")
            splits.setdefault(canonical(found["path"]), word)
    if not splits:
        cure = "Give the folder that holds <domain>_train.txt, <domain>_test.txt and so on."
        raise FedshiftError(folder, "holds no lists", cure)
    return splits
