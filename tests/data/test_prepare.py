"""Prepare and load: exact pixels, one order whatever the number of processes, named damage, a killed process; what a run gets of them."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

from fedshift.common.errors import FedshiftError
from fedshift.common.files import sha256
from fedshift.common.parquet import write_columns
from fedshift.common.registry import get
from fedshift.data import prepare as module
from fedshift.data.augment import Augment, Evaluate
from fedshift.data.fetch import fetch
from fedshift.data.load import load
from fedshift.data.partition import load_partition, partition
from fedshift.data.plots import plot_counts, plot_domains, plot_partition
from fedshift.data.prepare import load_prepared, prepare
from fedshift.data.verify import write_manifest
from fedshift.federation.samples import Samples
from fedshift.spec import RunSpec
from fedshift.spec.resolve import resolve
from fedshift.spec.settings import Prepare, Source
from fedshift.storage.workspace import Workspace
from fedshift.testing.toys import spec
from tests.conftest import ROOT
from tests.data.conftest import draw, plant

PX = Prepare(px=8)


@pytest.fixture
def tree(workspace: Workspace, tmp_path: Path) -> Path:
    """A user's tree of 8 images of 12 x 10, fetched as release `mine`."""
    root = plant(tmp_path / "tree", "AB", "xy")
    fetch(workspace, "folder", "mine", root, say=lambda _: None)
    return root


def test_pixels_and_index_agree_with_the_files(workspace: Workspace, tree: Path) -> None:
    folder = prepare(workspace, "folder", "mine", PX)
    content = load_prepared(folder)
    images, index = content.pixels, content.index
    assert images.shape == (8, 8, 8, 3) and images.dtype == np.uint8 and isinstance(images, np.memmap)
    assert index.columns.tolist() == ["sample", "path", "domain", "class", "label", "split", "group"]
    assert index.dtypes.astype(str).tolist() == ["int32", "str", "str", "str", "int16", "str", "int32"]
    assert index["sample"].tolist() == list(range(8))
    for sample, path in zip(index["sample"], index["path"], strict=True):
        expected = Image.open(tree / path).resize((8, 8), Image.Resampling.BILINEAR)
        np.testing.assert_array_equal(images[sample], np.asarray(expected))


def test_processes_change_nothing(workspace: Workspace, tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHUNK", 3)
    folder = prepare(workspace, "folder", "mine", PX, jobs=1)
    alone = json.loads((folder / "prepared.json").read_text())
    shutil.rmtree(folder)
    monkeypatch.setattr(module, "IMAGES_PER_PROCESS", 4)
    prepare(workspace, "folder", "mine", PX, jobs=2)
    assert json.loads((folder / "prepared.json").read_text()) == alone


def test_a_changed_pixel_is_found(workspace: Workspace, tree: Path) -> None:
    folder = prepare(workspace, "folder", "mine", PX)
    images = np.load(folder / "images.npy", mmap_mode="r+")
    images[3, 2, 1, 0] ^= 1
    images.flush()
    with pytest.raises(FedshiftError, match=r"images\.npy: does not match"):
        load_prepared(folder)


def test_a_changed_label_is_found(workspace: Workspace, tree: Path) -> None:
    folder = prepare(workspace, "folder", "mine", PX)
    path = folder / "index.parquet"
    index = load_prepared(folder).index
    index.loc[3, "label"] = 0
    write_columns(path, index, {})  # sound in itself
    with pytest.raises(FedshiftError, match=r"index\.parquet: does not match"):
        load_prepared(folder)
    index.to_parquet(path)  # without its hash
    with pytest.raises(FedshiftError, match=r"index\.parquet: is damaged"):
        load_prepared(folder)


def test_other_images_under_the_same_release_are_refused(workspace: Workspace, tree: Path) -> None:
    prepare(workspace, "folder", "mine", PX)
    (tree / "A" / "x" / "0.png").unlink()
    write_manifest(workspace, "folder", "mine")
    with pytest.raises(FedshiftError, match="another state of folder mine"):
        prepare(workspace, "folder", "mine", PX)


def test_large_maps_stay_on_the_host() -> None:
    pixels = torch.zeros(3, 2, 2, 3, dtype=torch.uint8)
    told = (pixels, torch.zeros(3, dtype=torch.int64), Augment("none", 2, 2, "unit"), Evaluate(2, 2, "unit"))
    elsewhere = torch.device("meta")
    assert Samples(*told, device=elsewhere, resident_bytes=pixels.nbytes).home == elsewhere
    kept = Samples(*told, device=elsewhere, resident_bytes=pixels.nbytes - 1)
    assert kept.home.type == kept.pixels.device.type == "cpu"
    assert kept.take(torch.tensor([1]))[0].device == elsewhere


KILLED = """
import sys
from pathlib import Path
from fedshift.data import prepare
from fedshift.spec.settings import Prepare
from fedshift.storage.workspace import Workspace
from tests.killed import after_calls

prepare.CHUNK, prepare.IMAGES_PER_PROCESS, prepare.SAVE_SECONDS = 2, 1, 0.0
after_calls(prepare, "write_json", 3)
prepare.prepare(Workspace(Path(sys.argv[1])), "folder", "mine", Prepare(px=8), jobs=int(sys.argv[2]))
"""


def killed(workspace: Workspace, jobs: int) -> None:
    """A prepare that dies when three chunks of two images are decoded and two of them are noted; its processes die with it."""
    command = [sys.executable, "-c", KILLED, str(workspace.root), str(jobs)]
    process = subprocess.Popen(command, cwd=ROOT, start_new_session=True)
    assert process.wait(timeout=120) == -signal.SIGKILL
    end = time.monotonic() + 30
    while time.monotonic() < end:
        try:
            os.killpg(process.pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.1)
    pytest.fail("processes of a killed prepare live on")


def interrupted(workspace: Workspace) -> None:
    """A prepare that ends at the same place by Ctrl-C."""
    write, calls = module.write_json, list[Path]()

    def until_the_third(path: Path, value: object) -> None:
        calls.append(path)
        if len(calls) == 3:
            raise KeyboardInterrupt
        write(path, value)

    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(module, "CHUNK", 2)
        patch.setattr(module, "SAVE_SECONDS", 0.0)
        patch.setattr(module, "write_json", until_the_third)
        prepare(workspace, "folder", "mine", PX, jobs=1)


def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths of images that are decoded from now on in this process."""
    decoded: list[str] = []
    real = get("datasets", "folder").image

    def image(self: object, raw: Path, path: str) -> Image.Image:
        decoded.append(path)
        return real(self, raw, path)  # type: ignore[no-any-return]

    monkeypatch.setattr(get("datasets", "folder"), "image", image)
    return decoded


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [1, 2])
def test_a_killed_prepare_goes_on_where_it_was(
    workspace: Workspace, tree: Path, monkeypatch: pytest.MonkeyPatch, jobs: int
) -> None:
    killed(workspace, jobs)
    folder = workspace.prepared(Source(dataset="folder", release="mine", prepare=PX).prepared_name)
    assert not folder.exists()
    decoded = counted(monkeypatch)
    assert prepare(workspace, "folder", "mine", PX, jobs=1) == folder
    assert decoded == list(load_prepared(folder).index["path"][4:])
    assert sorted(path.name for path in folder.iterdir()) == ["images.npy", "index.parquet", "prepared.json"]
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]
    facts = load_prepared(folder).facts
    shutil.rmtree(folder)
    prepare(workspace, "folder", "mine", PX, jobs=1)
    assert len(decoded) == 4 + 8
    assert load_prepared(folder).facts == facts


def test_what_was_begun_and_then_cut_short_starts_anew(
    workspace: Workspace, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted(workspace)
    (begun,) = workspace.prepared("folder").rglob("images.npy")
    os.truncate(begun, begun.stat().st_size // 2)
    decoded = counted(monkeypatch)
    content = load_prepared(prepare(workspace, "folder", "mine", PX, jobs=1))
    assert decoded == list(content.index["path"]) and content.pixels.any(axis=(1, 2, 3)).all()


def test_what_was_begun_with_other_images_starts_anew(
    workspace: Workspace, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted(workspace)
    draw(tree / "A" / "x" / "0.png", 99)
    write_manifest(workspace, "folder", "mine")
    decoded = counted(monkeypatch)
    content = load_prepared(prepare(workspace, "folder", "mine", PX, jobs=1))
    images, index = content.pixels, content.index
    assert decoded == list(index["path"]) and len(decoded) == 8
    expected = Image.open(tree / "A" / "x" / "0.png").resize((8, 8), Image.Resampling.BILINEAR)
    np.testing.assert_array_equal(images[0], np.asarray(expected))


def test_a_full_disk_is_said_at_once_and_keeps_what_was_done(
    workspace: Workspace, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted(workspace)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=0))
    decoded = counted(monkeypatch)
    with pytest.raises(FedshiftError, match=r"images\.npy: needs 0\.0 GB more") as error:
        prepare(workspace, "folder", "mine", PX, jobs=1)
    assert error.value.retry and decoded == []
    monkeypatch.undo()
    decoded = counted(monkeypatch)
    prepare(workspace, "folder", "mine", PX, jobs=1)
    assert len(decoded) == 4


def test_pictures_take_any_name_for_text(tmp_path: Path) -> None:
    names = ["a$$b", "Ca$h & A$$et", "\\frac{1}", "50% {x} _y^", "_hidden", "'q' \"q\""]
    index = pd.DataFrame({"domain": names, "label": 0, "class": "$x$$", "client": [*range(5), -1]})
    index["split"] = ["train"] * 5 + ["target"]
    plot_domains(np.zeros((6, 8, 8, 3), np.uint8), index, tmp_path / "domains.png")
    plot_counts({name: {"$x$$": 3} for name in names}, "$$", tmp_path / "counts.png")
    plot_partition(index, tmp_path / "partition.png")
    assert len([*tmp_path.iterdir()]) == 3


def spec_of(method: str = "fedavg", target: object = "texture", **blocks: Any) -> RunSpec:
    hp = {"space": "rgb", "styles": 1} if method == "ccst" else {}
    return resolve(spec(data={"target": target}, method={"name": method, "params": hp}, **blocks))


def test_run_gets_what_its_files_say(project: Path) -> None:
    workspace = Workspace(project)
    spec = spec_of(target=["texture", "ink"], partition={"target_split": "client"})
    path = partition(workspace, spec)
    prepared = load_prepared(workspace.prepared(spec.data.prepared_name))
    table, content = load_partition(path, prepared.index)
    data = load(workspace, spec)
    assert data.images.shape == (1797, 32, 32, 3) and data.classes == list("0123456789")
    assert np.array_equal(data.images.numpy(), prepared.pixels)
    assert data.labels.tolist() == prepared.index["label"].tolist()
    assert [client.domains for client in data.clients] == [("plain",), ("outline",)]
    for k, client in enumerate(data.clients):
        for name in ("train", "val", "test"):
            held = table[(table["client"] == k) & (table["split"] == name)]
            assert client.split(name).tolist() == held["sample"].tolist()
    for domain, tested, unheld in zip(("texture", "ink"), data.targets, data.unheld, strict=True):
        whole = table[table["domain"] == domain]
        assert tested.tolist() == whole.loc[whole["split"] == "target", "sample"].tolist()
        assert unheld.tolist() == whole["sample"].tolist()
        assert 0 < len(tested) < len(unheld) / 5
    facts = prepared.facts
    assert data.hashes == {"prepared": sha256(facts["images"] + facts["index"]), "partition": content}


def test_a_client_without_training_samples_is_refused(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace, spec = Workspace(project), spec_of(partition={"fractions": [0.1, 0.9, 0.0]})
    path = partition(workspace, spec)

    def emptied(*given: Any) -> Any:
        table, content = load_partition(*given)
        table.loc[(table["client"] == 1) & (table["split"] == "train"), "split"] = "val"
        return table, content

    monkeypatch.setattr("fedshift.data.load.load_partition", emptied)
    with pytest.raises(FedshiftError, match="client 1 has no training sample") as error:
        load(workspace, spec)
    assert str(path) in str(error.value)
