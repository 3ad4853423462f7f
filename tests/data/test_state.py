"""`fedshift list datasets`: absent, raw, verified, prepared, partitioned."""

from __future__ import annotations

from pathlib import Path

from fedshift.data.partition import partition
from fedshift.data.prepare import prepare
from fedshift.data.state import State, partitions, states
from fedshift.data.verify import verify, write_manifest
from fedshift.spec import Prepare
from fedshift.storage.workspace import Workspace
from tests.cli.test_data_verbs import call
from tests.data.conftest import plant
from tests.data.test_partition import make_spec


def test_each_step_is_seen(workspace: Workspace, tmp_path: Path) -> None:
    workspace.root.mkdir()
    assert states(workspace, "folder") == {}
    tree = plant(tmp_path / "tree", "AB", "xy", each=5)
    call(workspace.root, "fetch", "folder", "--release", "mine", "--from", str(tree))
    assert states(workspace, "folder") == {"mine": State("raw")}
    verify(workspace, "folder", "mine")
    assert states(workspace, "folder") == {"mine": State("verified", 20)}
    for px in (32, 16):
        prepare(workspace, "folder", "mine", Prepare(px=px), jobs=1)
    assert states(workspace, "folder") == {"mine": State("verified", 20, (16, 32))}
    spec = make_spec(dataset="folder")
    partition(workspace, spec.model_copy(update={"data": spec.data.model_copy(update={"release": "mine"})}))
    assert partitions(workspace, "folder") == {"mine": 1}
    lines = call(workspace.root, "list", "datasets").output.splitlines()
    assert "mine: verified, 20 files, prepared (16, 32 px), partitioned (1)" in [
        line.strip() for line in lines
    ]
    (tree / "A" / "x" / "more.png").write_bytes((tree / "A" / "x" / "0.png").read_bytes())
    write_manifest(workspace, "folder", "mine")  # another one than it was verified by
    assert states(workspace, "folder") == {"mine": State("raw", 0, (16, 32))}


def test_list_shows_every_data_set_and_release(workspace: Workspace, tmp_path: Path) -> None:
    workspace.root.mkdir()
    tree = plant(tmp_path / "tree", "AB", "xy")
    call(workspace.root, "fetch", "folder", "--release", "mine", "--from", str(tree))
    lines = call(workspace.root, "list", "datasets").output.splitlines()
    stripped = [line.strip() for line in lines]
    assert "mine: raw (not verified)" in stripped and "original: comes with its library" in stripped
    assert stripped.count("cleaned: absent") == 1 and stripped.count("fedbn: absent") == 1
    titles = [line for line in lines if line.startswith("  ") and not line.startswith("   ")]
    assert len(titles) == 10
