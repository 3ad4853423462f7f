"""Official lists: which image is for training, validation or test, by path."""

from __future__ import annotations

import functools
import gzip
import re
import zlib
from collections.abc import Callable
from pathlib import Path

import pandas as pd

from fedshift.common.errors import FedshiftError
from fedshift.common.files import write_bytes

REFERENCE = Path(__file__).parents[3] / "reference" / "lists"
WORDS = ("train", "crossval", "val", "test")
NAME = re.compile(r"(?P<domain>.+?)(_(?P<word>train|crossval|val|test))?(_kfold)?\.txt")


def own_lists(raw: Path) -> Path:
    """Where `fetch --lists` puts the user's lists: beside the tree, which may be a link."""
    return raw.with_name(f"{raw.name}.lists.csv.gz")


def lists_file(raw: Path, name: str | None) -> Path | None:
    """The lists that hold for `raw`: the user's before the project's file `name`; None where there are
    none.
    """
    own = own_lists(raw)
    return own if own.exists() else REFERENCE / name if name else None


def read_lists(path: Path) -> dict[str, str]:
    """Path -> train, crossval, val, test, or "" where a list names files and no split."""
    if not path.exists():
        raise FedshiftError(path, "no such list", "Restore it from the repository.")
    return _read(path, path.stat().st_mtime_ns)


@functools.lru_cache(maxsize=4)
def _read(path: Path, time: int) -> dict[str, str]:
    try:
        table = pd.read_csv(path, dtype="str", keep_default_na=False)
        return dict(zip(table["path"], table["split"], strict=True))
    except (EOFError, KeyError, OSError, ValueError, zlib.error) as error:
        raise FedshiftError(path, f"is not whole: {error}", "Restore it, or give the lists anew.") from None


def write_lists(path: Path, words: dict[str, str]) -> None:
    """Write official lists, path -> split, as a compressed CSV; the same lists give the same bytes."""
    table = pd.DataFrame(sorted(words.items()), columns=["path", "split"])
    write_bytes(path, gzip.compress(table.to_csv(index=False, lineterminator="\n").encode(), mtime=0))


def gather(folder: Path, canonical: Callable[[str], str]) -> dict[str, str]:
    """Read text files `<domain>[_<split>][_kfold].txt` below `folder`: lines `.../domain/class/file [label]`.

    `canonical` turns `domain/class/file` into the names used here. A path on two lists keeps the first of
    train, crossval, val, test: PACS's `test` lists are the whole domain. Raises FedshiftError for a folder
    without such files and for a line that is no path.
    """
    splits: dict[str, str] = {}
    files = [
        (match["word"] or "", path) for path in folder.rglob("*.txt") if (match := NAME.fullmatch(path.name))
    ]
    for word, path in sorted(files, key=lambda file: ([*WORDS, ""].index(file[0]), file[1])):
        for number, line in enumerate(_lines(path), start=1):
            if line.strip():
                splits.setdefault(canonical(_path(line, f"{path}:{number}")), word)
    if not splits:
        cure = "Give the folder that holds <domain>_train.txt, <domain>_test.txt and so on."
        raise FedshiftError(folder, "holds no lists", cure)
    return splits


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise FedshiftError(path, f"is no list: {error}", "Save it as UTF-8.") from None


def _path(line: str, where: str) -> str:
    """The last three parts of the path that a line begins with; a label, a number or the class, may
    follow.
    """
    parts = (
        re.sub(r"[\s,]+\S+$", "", line.strip()).split("/")
        if re.search(r"\.\w+[\s,]", line)
        else line.strip().split("/")
    )
    if len(parts) < 3:
        raise FedshiftError(where, f"'{line}' is no path domain/class/file", "Mend the list.")
    return "/".join(parts[-3:])
