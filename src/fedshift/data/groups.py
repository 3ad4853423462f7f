"""Groups: images that belong together, such as those of a patient, and that no split separates."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedshift.common.errors import FedshiftError
from fedshift.common.files import read_rows, sha256_file
from fedshift.spec.settings import Groups

COLUMNS = ("path", "group")


def grouped(index: pd.DataFrame, groups: Groups, root: Path) -> pd.DataFrame:
    """The index with a `group` number for every image.

    Images share a number if they have the same group by pattern or file, or are byte-identical. Raises
    FedshiftError for images without a group, and for a file that has changed since the run was declared.

    root: the project folder, which the path `file` is relative to
    """
    paths = index["path"].tolist()
    names = _by_pattern(paths, groups.pattern) if groups.pattern else _by_file(paths, groups, root)
    return index.assign(group=_joined(pd.factorize(np.array(names))[0], index["group"].to_numpy()))


def hashed(groups: Groups, root: Path) -> Groups:
    """Add the SHA-256 of the groups' file, so that another content makes another partition.

    Raises FedshiftError if there is no such file.
    """
    if not groups.file or groups.sha256:
        return groups
    if not (path := root / groups.file).is_file():
        cure = f"Its columns: {', '.join(COLUMNS)}."
        raise FedshiftError("partition.groups.file", f"there is no file {path}", cure)
    return groups.model_copy(update={"sha256": sha256_file(path)})


def _by_pattern(paths: list[str], pattern: str) -> list[str]:
    """The group of each image: the first group of the pattern in the file's name, or the whole match.

    An empty group, or one that does not take part in the match, counts as no match.
    """
    found = [re.search(pattern, path.rpartition("/")[2]) for path in paths]
    names = [match[match.re.groups and 1] if match else None for match in found]
    if without := [path for path, name in zip(paths, names, strict=True) if not name]:
        counted = "no image" if len(without) == len(paths) else f"all images but {len(without)}"
        what = f"'{pattern}' matches the name of {counted}; without a match: {without[0]}"
        cure = "Change the pattern, or list the groups in a file."
        raise FedshiftError("partition.groups.pattern", what, cure)
    return [name for name in names if name]


def _by_file(paths: list[str], groups: Groups, root: Path) -> list[str]:
    """The group of each image in a CSV file with COLUMNS: paths as domain/class/file, or names of files."""
    path = root / groups.file
    if sha256_file(path) != groups.sha256:
        what = "has changed since this run was declared"
        raise FedshiftError(path, what, "Plan it again, or restore the file.")
    rows = read_rows(path)
    if not rows or not {*COLUMNS} <= rows[0].keys():
        what = "has no columns path and group"
        raise FedshiftError(path, what, "Write a line `path,group` above the others.")
    listed = dict[str, str]()
    for row in rows:
        if (known := listed.setdefault(row["path"], row["group"])) != row["group"]:
            what = f"names two groups of '{row['path']}': {known} and {row['group']}"
            raise FedshiftError(path, what, "Write whole paths: domain/class/file.")
    names = [listed.get(image, listed.get(image.rpartition("/")[2], "")) for image in paths]
    if without := [image for image, name in zip(paths, names, strict=True) if not name]:
        what = f"names no group of {len(without)} images, such as {without[0]}"
        raise FedshiftError(path, what, "Add a line for each image: its path or file name, and its group.")
    return names


def _joined(named: NDArray[np.int64], copies: NDArray[np.int32]) -> NDArray[np.int32]:
    """Number the connected sets of images that share a name or a non-negative number of `copies`."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    images, rows = len(named), np.flatnonzero(copies >= 0)
    first = np.concatenate([np.arange(images), rows])
    second = images + np.concatenate([named, named.max() + 1 + copies[rows]])
    size = int(second.max()) + 1
    graph = coo_array((np.ones(len(first)), (first, second)), shape=(size, size))
    return connected_components(graph, directed=False)[1][:images].astype(np.int32)
