"""What is done with a case: the real entry, which accepts it or raises FedshiftError, writes nothing outside, and is right."""

import base64
import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from PIL import Image

from fedshift.cli.plan import read_request
from fedshift.data.archive import unpack
from fedshift.data.dataset import rows
from fedshift.data.fetch import fetch
from fedshift.data.partition import divide
from fedshift.data.prepare import load_prepared, prepare
from fedshift.data.verify import verify
from fedshift.experiments.expand import expand
from fedshift.experiments.load import load
from fedshift.planning.cluster import PATH, Cluster
from fedshift.spec import Division, closed
from fedshift.spec.resolve import resolve_division
from fedshift.spec.settings import Prepare
from fedshift.storage.workspace import Workspace
from tests.fuzz.strategies import EXPERIMENT, PARAMS, REPOSITORY

PIXELS = 8


class Ground:
    """A folder deep enough for a path that climbs out to be seen, with a project in it."""

    def __init__(self, top: Path) -> None:
        self.top, self.inner = top, top / "1" / "2" / "3" / "4"
        self.project = self.inner / "project"
        shutil.copytree(
            REPOSITORY / "reference", self.project / "reference", ignore=shutil.ignore_patterns("*.csv.gz")
        )
        for folder in ("experiments", "slurm"):
            (self.project / folder).mkdir()
        self.write("experiments/fuzz.yaml", EXPERIMENT)
        self.write("params.yaml", PARAMS)

    def write(self, name: str, text: str) -> None:
        (self.project / name).write_bytes(text.encode(errors="surrogateescape"))

    @contextlib.contextmanager
    def empty(self) -> Iterator[Path]:
        """An empty folder; nothing may come to lie outside of it meanwhile."""
        before, place = self._outside(), self.inner / "case"
        place.mkdir()
        try:
            yield place
        finally:
            shutil.rmtree(place)
        assert self._outside() == before, "something was written outside"

    def _outside(self) -> set[str]:
        skipped = {self.project, self.inner / "case"}
        found = set()
        for folder, names, files in os.walk(self.top):
            names[:] = [name for name in names if Path(folder, name) not in skipped]
            found |= {str(Path(folder, name)) for name in files + names}
        return found


def experiment(ground: Ground, case: str) -> None:
    ground.write("experiments/fuzz.yaml", case)
    workspace = Workspace(ground.project)
    try:
        for cell in expand(workspace, load(workspace, "fuzz")):
            assert cell.spec.seed >= 0 and cell.spec.federation.rounds <= 10**6
    finally:
        ground.write("experiments/fuzz.yaml", EXPERIMENT)


def protocol(ground: Ground, case: str) -> None:
    before = (ground.project / "reference" / "protocols" / "digits.yaml").read_text()
    ground.write("reference/protocols/digits.yaml", case)
    try:
        expand(Workspace(ground.project), load(Workspace(ground.project), "fuzz"))
    finally:
        ground.write("reference/protocols/digits.yaml", before)


def params(ground: Ground, case: str) -> None:
    ground.write("params.yaml", case)
    request = read_request(Workspace(ground.project), ())
    assert request.experiments and request.pack >= 1 and request.hours >= 1


def cluster(ground: Ground, case: str) -> None:
    ground.write(PATH.as_posix(), case)
    assert all(isinstance(value, str) for value in Cluster.read(ground.project).resources.values())


def tree(ground: Ground, case: dict[str, Any]) -> None:
    with ground.empty() as place:
        root = place / "tree"
        root.mkdir()
        for number, (*parts, name, content) in enumerate(case["entries"]):
            with contextlib.suppress(OSError):  # a name that is a file and a folder, or too long
                _plant(root.joinpath(*parts, name), content, number)
        workspace = Workspace(place / "project")
        fetch(
            workspace, "folder", "mine", root, ignore=case["ignore"], skip_broken=case["skip_broken"], say=_silent
        )  # fmt: skip
        verify(workspace, "folder", "mine")
        prepared = load_prepared(prepare(workspace, "folder", "mine", Prepare(px=PIXELS), jobs=1))
        assert len(prepared.index) == len(prepared.pixels) > 0
        assert prepared.index["label"].max() < len(prepared.facts["classes"])


def _silent(text: object) -> None:
    pass


def _plant(path: Path, content: str, number: int) -> None:
    """Make what the word says at a path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if content == "folder":
        path.mkdir()
    elif content in ("link", "lost"):
        path.symlink_to("/etc/hostname" if content == "link" else "nowhere")
    elif content in ("empty", "text"):
        path.write_bytes(b"" if content == "empty" else b"a note")
    else:
        mode, side = ("I;16", 6) if content == "sixteen" else ("RGB", 6)
        shape = (1, 9000) if content == "wide" else (side, side + number % 3)
        image = Image.new(mode, shape, 0 if content in ("same", "sixteen") else (number, 7 * number, 99))
        image.save(
            path, format="PNG" if mode != "RGB" or path.suffix.lower() not in (".jpg", ".jfif") else "JPEG"
        )
        if content == "cut":
            path.write_bytes(path.read_bytes()[:50])


def archive(ground: Ground, case: str) -> None:
    with ground.empty() as place:
        (place / "archive").write_bytes(base64.b64decode(case))
        unpack(place / "archive", place / "raw")
        for path in (place / "raw").rglob("*"):
            assert not path.is_symlink() and (path.is_file() or path.is_dir()), path


def partition(ground: Ground, case: dict[str, Any]) -> None:
    value = {
        "data": {"dataset": "folder", "target": case["target"]},
        "partition": case["partition"],
        "seed": case["seed"],
    }
    spec = resolve_division(closed(Division, value, "case"), "case")
    paths = [f"{domain}/{'xyz'[i % 3]}/{i:03}" for domain, size in case["sizes"].items() for i in range(size)]
    index = rows(paths, "xyz")
    index.insert(0, "sample", np.arange(len(index), dtype=np.int32))
    rng = np.random.default_rng(case["groups"])
    if case["groups"]:
        index["group"] = (rng.integers(-1, case["groups"], len(index))).astype("int32")
    index["split"] = rng.choice(["train", "val", "test"], len(index))
    _check(divide(index, spec), index, spec)


def _check(table: pd.DataFrame, index: pd.DataFrame, spec: Division) -> None:
    """Every image has one place, every client two to train on; no client trains on what is tested."""
    assert table["sample"].tolist() == index["sample"].tolist()
    held = table[table["client"] >= 0]
    assert set(held["split"]) <= {"train", "val", "test"}
    assert set(table.loc[table["client"] < 0, "split"]) <= {"target", "unused"}
    trained = held[held["split"] == "train"]
    assert (trained["client"].value_counts() >= 2).all() and trained["client"].nunique() == held[
        "client"
    ].max() + 1
    if spec.partition.groups == "together":
        tested = set(index.loc[table["split"] == "target", "group"]) - {-1}
        assert not tested & set(index.loc[held.index, "group"])


PLAYS: dict[str, Callable[[Ground, Any], None]] = {
    play.__name__: play for play in (experiment, protocol, params, cluster, tree, archive, partition)
}
