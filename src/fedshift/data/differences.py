"""How a raw tree differs from its manifest, and from what was published of the data set."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from fedshift.data.dataset import Dataset
from fedshift.data.lists import REFERENCE, own_lists, read_lists

MAX_LISTED = 20  # files of a kind that are named


def differences(wanted: pd.DataFrame, actual: pd.DataFrame) -> list[str]:
    """Lines that name missing, surplus and corrupt files, and count them by domain and class."""
    both = wanted.merge(actual, on="path", how="outer", suffixes=("", "_actual"), indicator="where")
    kinds = {
        "missing": both[both["where"] == "left_only"],
        "surplus": both[both["where"] == "right_only"],
        "corrupt": both[(both["where"] == "both") & (both["sha256"] != both["sha256_actual"])],
    }
    lines = []
    for kind, rows in kinds.items():
        if len(rows):
            cells = rows["path"].str.rpartition("/")[0].value_counts(sort=False)
            lines.append(
                f"{len(rows):,} {kind}: " + ", ".join(f"{cell} {count}" for cell, count in cells.items())
            )
            lines += [f"  {path}" for path in rows["path"][:MAX_LISTED]]
            lines += [f"  ... and {len(rows) - MAX_LISTED:,} more"] if len(rows) > MAX_LISTED else []
    return lines


def unpublished(dataset: Dataset, raw: Path, actual: pd.DataFrame) -> list[str]:
    """Lines that tell how the tree differs from published names or, without such, from published counts per
    domain.
    """
    facts = dataset.facts(raw)
    if facts.complete and facts.lists and not own_lists(raw).exists():
        names = pd.DataFrame({"path": list(read_lists(REFERENCE / facts.lists)), "sha256": ""})
        return differences(names, actual[["path"]].assign(sha256=""))
    counts = actual["path"].str.partition("/")[0].value_counts()
    published = facts.counts or {}
    return [
        f"{domain}: {counts.get(domain, 0):,} images, {number:,} were published"
        for domain, number in published.items()
        if counts.get(domain, 0) != number
    ]
