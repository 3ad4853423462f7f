"""What a raw tree holds twice: byte-identical files, and names that look alike."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

SPLITS = frozenset(
    {"train", "training", "val", "valid", "validation", "dev", "test", "testing", "crossval", "holdout"}
)


def duplicates(table: pd.DataFrame) -> dict[str, Any]:
    """Byte-identical files: `groups`, `surplus` (all but one of each) and `files`, the paths of every group.

    `domains`: groups whose files lie in several domains; `classes`: groups whose files lie in several
    classes, so that their labels contradict each other.
    """
    groups = [sorted(paths) for _, paths in table.groupby("sha256", sort=False)["path"] if len(paths) > 1]
    parts = [[{path.split("/")[level] for path in paths} for level in (0, 1)] for paths in groups]
    across = (sum(len(names[level]) > 1 for names in parts) for level in (0, 1))
    counts = {"groups": len(groups), "surplus": sum(map(len, groups)) - len(groups)}
    return {**counts, **dict(zip(("domains", "classes"), across, strict=True)), "files": sorted(groups)}


def look_alikes(names: Iterable[str]) -> list[list[str]]:
    """Names that are the same but for case, blanks at their ends or the form of their Unicode."""
    by_form: dict[str, list[str]] = {}
    for name in names:
        by_form.setdefault(unicodedata.normalize("NFKC", name).casefold().strip(), []).append(name)
    return [alike for alike in by_form.values() if len(alike) > 1]


def name_warnings(counts: Mapping[str, Mapping[str, int]]) -> list[str]:
    """A line for domains and a line for classes of a manifest's `counts` whose names look alike, perhaps the
    same name taken for two; and one for each that are named like splits.
    """
    kinds = {
        "domains": list(counts),
        "classes": list(dict.fromkeys(name for by in counts.values() for name in by)),
    }
    alike = [
        f"warning: {kind} that differ by case, blanks or Unicode form alone: "
        + "; ".join(" and ".join(map(ascii, alike)) for alike in groups)
        for kind, names in kinds.items()
        if (groups := look_alikes(names))
    ]
    splits = [
        f"warning: {kind} that are named like splits: {', '.join(found)}. A tree is domain/class/image; "
        "fedshift splits it itself"
        for kind, names in kinds.items()
        if (found := [name for name in names if name.casefold() in SPLITS])
    ]
    return alike + splits
