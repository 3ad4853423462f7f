"""The choice of a tuned experiment in the archive: of what its search found its final runs are made, so a
clone needs it to know which archived runs are theirs.

results-archive/tuning/<experiment>/<search>-<hash>.json: <search> covers the digests of the search's runs,
whatever code trained them, for declared versions vouch for a choice as they do for archived runs; <hash> is
of the file's bytes. The runs of the search need not be archived.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pydantic import Field

from fedshift.common.errors import FedshiftError
from fedshift.common.files import canonical_json, sha256, write_bytes
from fedshift.experiments.choice import Choice, Chosen, key_of, path_of
from fedshift.experiments.choice import read as read_choice
from fedshift.spec.block import Closed, closed
from fedshift.storage.workspace import Workspace

FORMAT = 1
NAME = re.compile(r"([0-9a-f]{16})-([0-9a-f]{12})\.json")
EXACT = 1e-6  # percentage points: a choice has nine decimals
CURE = "Remove the file (git keeps it), and archive the experiment again where it was tuned."


class ArchivedChoice(Closed):
    """The content of a file.

    digests: of all runs of the search; rule: which round of a run counted; chosen: as Chosen has it
    searched: every point that was tried, with its score, as CSV
    """

    format: int
    experiment: str
    digests: list[str] = Field(min_length=1)
    rule: str
    chosen: list[Chosen] = Field(min_length=1)
    searched: str


def add(workspace: Workspace, experiment: str, digests: Iterable[str]) -> tuple[Path | None, list[Path]]:
    """Archive what the search of an experiment chose here; return its file, None where it is there or nothing
    was chosen, and the files of the same search that it takes the place of.

    digests: of all runs of the search.
    """
    digests = sorted({*digests})
    own = path_of(workspace, experiment, digests)
    if (choice := read_choice(own)) is None:
        return None, []
    searched = own.with_suffix(".csv").read_text(encoding="utf-8")
    content = ArchivedChoice(
        format=FORMAT,
        experiment=experiment,
        digests=digests,
        rule=choice.rule,
        chosen=choice.chosen,
        searched=searched,
    )
    data = (canonical_json(content.model_dump(mode="json")) + "\n").encode()
    path = workspace.archived_choices(experiment) / f"{key_of(digests)}-{sha256(data)[:12]}.json"
    old = [other for other in _of_search(workspace, experiment, digests) if other != path]
    new = not path.exists()
    write_bytes(path, data)
    for other in old:
        other.unlink()
    return (path if new else None), old


def find(workspace: Workspace, experiment: str, digests: Iterable[str]) -> Choice | None:
    """What the archive says that this search chose; None where it says nothing. Raises FedshiftError for a
    file that `check` refuses, and for two of one search.
    """
    paths = _of_search(workspace, experiment, {*digests})
    contents = [check(workspace, path) for path in paths]
    return Choice(contents[0].rule, contents[0].chosen) if contents else None


def files(workspace: Workspace, experiment: str | None = None) -> list[Path]:
    """The archived choices of an experiment, or all."""
    folder = workspace.archived_choices(experiment or "")
    return sorted(folder.rglob("*.json") if experiment is None else folder.glob("*.json"))


def check(workspace: Workspace, path: Path) -> ArchivedChoice:
    """The content of a file. Raises FedshiftError where it is damaged, in another place than it belongs to,
    contradicts itself, or is not the only one of its search.
    """
    data, name = path.read_bytes(), NAME.fullmatch(path.name)
    if not name or sha256(data)[:12] != name[2]:
        raise FedshiftError(path, "has other bytes than when it was archived, or another name", CURE)
    try:
        content = closed(ArchivedChoice, json.loads(data), str(path))
    except ValueError as error:
        raise FedshiftError(path, f"is not whole: {error}", CURE) from None
    if content.format != FORMAT:
        what = f"is of format {content.format}, and this code reads {FORMAT}"
        raise FedshiftError(path, what, "Update fedshift: git pull.")
    if path.parent != workspace.archived_choices(content.experiment) or key_of(content.digests) != name[1]:
        raise FedshiftError(path, f"belongs to '{content.experiment}', or to another search", CURE)
    points = [*csv.DictReader(io.StringIO(content.searched))]
    for entry in content.chosen:
        if not _is_best(points, entry):
            raise FedshiftError(path, f"what it chose for '{entry.row}' is not the best that it tried", CURE)
    if len(_of_search(workspace, content.experiment, content.digests)) > 1:
        raise FedshiftError(path.parent, f"holds two choices of the search {name[1]}", f"Keep one. {CURE}")
    return content


def _of_search(workspace: Workspace, experiment: str, digests: Iterable[str]) -> list[Path]:
    return sorted(workspace.archived_choices(experiment).glob(f"{key_of(digests)}-*.json"))


def _is_best(points: list[dict[str, str]], entry: Chosen) -> bool:
    """Whether an entry is the point of the highest score of as many as it says were tried."""
    tried = [point for point in points if _agrees(point, {"method": entry.row, **entry.where})]
    taken = [point for point in tried if point.get("chosen") == "True"]
    try:
        best = max((float(point["validation"]) for point in tried if point["validation"]), default=None)
    except (KeyError, ValueError):
        return False
    if best is None or len(tried) != entry.points or len(taken) != 1 or not _agrees(taken[0], entry.values):
        return False
    return abs(best - entry.validation) < EXACT and abs(best - float(taken[0]["validation"] or "nan")) < EXACT


def _agrees(point: dict[str, str], values: dict[str, Any]) -> bool:
    """Whether a line of CSV has these values; of a number any spelling."""
    return all(_equal(point.get(key, ""), value) for key, value in values.items())


def _equal(text: str, value: Any) -> bool:
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return float(text) == value
        except ValueError:
            return False
    return text == ("" if value is None else str(value))
