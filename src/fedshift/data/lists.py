"""Official lists of images for training, validation or test, by path."""

import functools
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


def own_lists(raw: Path) -> Path:
    """Path of the user's lists (`fetch --lists`): next to the tree, which may be a link."""
    return raw.with_name(f"{raw.name}.lists.csv.gz")


def lists_file(raw: Path, name: str | None) -> Path | None:
    """The lists for `raw`: the user's, else the project's file `name`; None if there are neither."""
    own = own_lists(raw)
    return own if own.exists() else REFERENCE / name if name else None


def read_lists(path: Path) -> dict[str, str]:
    """Path -> train, crossval, val, test, or "" if a list names files without a split."""
    return _read(path, path.stat().st_mtime_ns if path.exists() else 0)


@functools.lru_cache(maxsize=4)
def _read(path: Path, time: int) -> dict[str, str]:
    return dict(read_table(path, {"path": "str", "split": "str"}, "Restore it, or give the lists again."))


def read_table(path: Path, columns: dict[str, str], cure: str) -> list[tuple[Any, ...]]:
    """Rows of a compressed CSV with `columns` (name: dtype). Raises FedshiftError if absent or damaged."""
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
    crossval, val, test, because PACS's `test` lists are the whole domain. Raises FedshiftError for a folder
    without such files, for a line that is not a path, and for labels that contradict the classes' folders.
    """
    splits: dict[str, str] = {}
    texts = ((path, NAME.fullmatch(path.name)) for path in folder.rglob("*.txt"))
    files = [(match["word"] or "", path) for path, match in texts if match]
    for word, path in sorted(files, key=lambda file: ([*WORDS, ""].index(file[0]), file[1])):
        labels: list[tuple[str, str]] = []  # path, label
        for number, line in enumerate(read_text(path).splitlines(), start=1):
            if line.strip():
                where = f"{path}:{number}"
                place, label = _path_and_label(line, where)
                splits.setdefault(name := canonical(place), word)
                labels.append((name, label))
        _check_labels(labels, canonical, path)
    if not splits:
        cure = "Give the folder that holds <domain>_train.txt, <domain>_test.txt and so on."
        raise FedshiftError(folder, "holds no lists", cure)
    return splits


def _check_labels(labels: list[tuple[str, str]], canonical: Callable[[str], str], path: Path) -> None:
    """Raise FedshiftError if a list does not have exactly one label for each class's folder."""
    classes = {image.split("/")[1] for image, _ in labels}
    labels_of, classes_of = dict[str, str](), dict[str, str]()
    for image, label in labels:
        if not label:
            continue
        own = image.split("/")[1]
        named = own if label.isdigit() else canonical(f"domain/{label}/file").split("/")[1]
        alone = classes_of.setdefault(label, own) == own and labels_of.setdefault(own, label) == label
        if not alone or named in classes - {own}:
            what = f"its labels contradict the folders: {image} has the label {label}"
            raise FedshiftError(path, what, "The folders are the classes: fix the list, or move the images.")


def _path_and_label(line: str, where: str) -> tuple[str, str]:
    """The last three parts of the path that begins a line, and its label: a number, the class, or ""."""
    text, label = line.strip(), ""
    if re.search(r"\.\w+[\s,]", text) and (found := re.search(r"[\s,]+((?!\S*\.[A-Za-z]\w*$)\S+)$", text)):
        text, label = text[: found.start()], found[1]
    parts = text.split("/")
    if len(parts) < 3:
        raise FedshiftError(where, f"'{line}' is not a path domain/class/file", "Fix the list.")
    return "/".join(parts[-3:]), label
