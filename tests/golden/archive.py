"""What the archive says: tables, verdicts, claims and the values of figures of every experiment with archived runs, made anew.

`archive.json` contains a digest of each file. Those that docs/results keeps must be the same bytes.
"""

import functools
import json
from collections.abc import Iterator
from pathlib import Path

from fedshift.analysis import scorecard, tables
from fedshift.analysis.collect import collect
from fedshift.analysis.collected import read
from fedshift.analysis.coverage import numbers
from fedshift.analysis.figures.base import plots, table
from fedshift.analysis.page import csv
from fedshift.cli.results import shown_without_training
from fedshift.common.files import read_json, sha256, write_json
from fedshift.common.processes import spread
from fedshift.experiments.load import available, load
from fedshift.storage.workspace import Workspace

FILE = Path(__file__).with_suffix(".json")
ROOT = Path(__file__).parents[2]
KEPT = ROOT / "docs" / "results"
LISTED = ("experiments", "reference", "results-archive", "params.yaml")


def made_anew(root: Path) -> dict[str, str]:
    """File -> digest of all that is made of the archive, in an empty folder."""
    for name in LISTED:
        (root / name).symlink_to(ROOT / name)
    workspace = Workspace(root)
    names = [
        name for name in available(workspace) if shown_without_training(workspace, load(workspace, name))
    ]
    with spread(len(names)) as each:
        for _ in each(functools.partial(_collect, root), names):  # before tables: claims compare experiments
            pass
        found = {
            file: digest for files in each(functools.partial(_files, root), names) for file, digest in files
        }
    text = scorecard.write(workspace, numbers(workspace)).with_suffix(".md").read_bytes()
    return dict(sorted({**found, "scorecard.md": _digest(text)}.items()))


def _collect(root: Path, name: str) -> None:
    collect(Workspace(root), name)


def _files(root: Path, name: str) -> list[tuple[str, str]]:
    """The files of an experiment, with their digests."""
    workspace = Workspace(root)
    collected = read(workspace, name)
    folder = tables.write(workspace, collected).parent
    made = {
        path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.suffix in (".md", ".csv")
    }
    drawn, _ = plots(workspace, collected)
    made |= {f"figures/{figure}.csv": csv(table(of)).encode() for figure, of in drawn.items()}
    return [(f"{name}/{file}", _digest(data)) for file, data in made.items()]


def _digest(data: bytes) -> str:
    return sha256(data)[:16]


def golden() -> dict[str, str]:
    return read_json(FILE) or {}


def stale() -> Iterator[str]:
    """Tables that docs/results keeps and that the archive does not say."""
    known = golden()
    for source in KEPT.glob("**/source.json"):
        experiment = source.parent.relative_to(KEPT).as_posix()
        if json.loads(source.read_text())["command"] != f"fedshift table {experiment}":
            continue
        for path in sorted(source.parent.iterdir()):
            file = f"{experiment}/{path.name}"
            if file in known and _digest(path.read_bytes()) != known[file]:
                yield file


def rewrite(root: Path) -> None:
    write_json(FILE, made_anew(root))
