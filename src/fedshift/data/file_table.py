"""The table of a raw tree's files - path, size, SHA-256 - and the hash over it that names the tree."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pandas as pd

from fedshift.common.files import sha256, sha256_file
from fedshift.data.dataset import Dataset
from fedshift.data.lists import own_lists


def tabulate(dataset: Dataset, raw: Path) -> pd.DataFrame:
    """One row per image: path, size in bytes, sha256; sorted by path."""
    paths = sorted(dataset.paths(raw))

    def facts(path: str) -> tuple[str, int, str]:
        content = dataset.content(raw, path)
        return path, len(content), sha256(content)

    with ThreadPoolExecutor() as pool:
        return pd.DataFrame(list(pool.map(facts, paths)), columns=["path", "size", "sha256"])


def tree_hash(table: pd.DataFrame, raw: Path) -> str:
    """What the manifest calls `hash`: the content, and the user's own lists where there are some."""
    own = own_lists(raw)
    return sha256(f"{content_hash(table)} {sha256_file(own)}") if own.exists() else content_hash(table)


def content_hash(table: pd.DataFrame) -> str:
    """SHA-256 over the lines `path sha256`, sorted by path: the identity of a tree."""
    return sha256(
        "".join(
            f"{path} {content}\n"
            for path, content in sorted(zip(table["path"], table["sha256"], strict=True))
        )
    )
