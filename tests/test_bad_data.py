"""What can be wrong with images, the disk, and what a run stands on: named with its place, and with what to do next."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from fedshift.common.errors import FedshiftError
from fedshift.data.partition import partition
from fedshift.storage.workspace import Workspace
from fedshift.training.run import Machine, train
from tests.data.conftest import plant
from tests.faults.disk import mounted, why_none
from tests.training.test_run import MACHINE, spec_of
from tests.verbs import done, fedshift, refused

pytestmark = pytest.mark.slow

# ---- images


@pytest.fixture
def tree(project: Path) -> Path:
    """A user's tree of two domains with two classes of six images."""
    return plant(project / "mine", ["day", "night"], ["cat", "dog"], each=6)


# ---- disk


def without_rights(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command by a user for whom the permissions of files hold: for root they do not."""
    mortal = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
    if mortal and shutil.which("setpriv") is None:
        pytest.skip("root without setpriv: permissions do not hold")
    command = [*mortal, sys.executable, "-m", "fedshift", "--root", str(root), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("closed", ["project/data", "tree/day/cat", "tree/day/cat/3.png"])
def test_what_may_not_be_read_or_written_is_named(tmp_path: Path, closed: str) -> None:
    root = tmp_path / "project"
    (root / "data").mkdir(parents=True)
    plant(tmp_path / "tree", ["day", "night"], ["cat", "dog"], each=4)
    place = tmp_path / closed
    place.chmod(0o500 if closed == "project/data" else 0)
    told = without_rights(root, "fetch", "folder", "--release", "mine", "--from", str(tmp_path / "tree"))
    place.chmod(0o700)
    assert told.returncode == 2 and "Traceback" not in told.stderr
    inside = Path(closed).relative_to(Path(closed).parts[0])
    assert f"{inside}" in told.stderr and "Permission denied" in told.stderr
    assert "Fix its permissions" in told.stderr


def test_a_read_only_file_system_is_named(project: Path, tmp_path: Path) -> None:
    plant(tmp_path / "tree", ["day", "night"], ["cat"], each=4)
    place = project / "data" / "raw"
    place.mkdir()
    if reason := why_none(place):
        pytest.skip(reason)
    with mounted(place, "ro"):
        result = fedshift(project, "fetch", "folder", "--release", "mine", "--from", str(tmp_path / "tree"))
    refused(result, "data/raw/folder", "Read-only file system", "Mount its file system for writing")


@pytest.mark.parametrize("torn", [b"", b'{"dataset": "dig', b"[1, 2]", b"\x80", b"[" * 5000])
def test_a_torn_description_of_prepared_images_is_named(project: Path, torn: bytes) -> None:
    (images,) = (project / "data" / "prepared" / "digits").iterdir()
    source = images.readlink()
    images.unlink()
    shutil.copytree(source, images)
    (images / "prepared.json").write_bytes(torn)
    refused(
        fedshift(project, "prepare", "digits"), "prepared.json", "is not whole", "fedshift prepare digits"
    )
    assert "digits" in done(fedshift(project, "list", "datasets"))


@pytest.mark.parametrize("torn", [b"", b"\x1f\x8b\x08\0torn", b"path,size\n"])
def test_a_torn_list_of_files_is_named(project: Path, tree: Path, torn: bytes) -> None:
    done(fedshift(project, "fetch", "folder", "--from", str(tree), "--release", "mine"))
    (list_of_files,) = (project / "data" / "raw" / "folder").glob("*.manifest.csv.gz")
    list_of_files.write_bytes(torn)
    refused(fedshift(project, "verify", "folder", "--release", "mine"), "manifest.csv.gz", "write-manifest")


@pytest.fixture
def tiny_disk(project: Path) -> Iterator[Path]:
    """A folder on a file system of 256 kB."""
    folder = project / "results"
    folder.mkdir()
    if reason := why_none(folder):
        pytest.skip(reason)
    with mounted(folder, "size=256k"):
        yield folder


def test_a_full_disk_loses_nothing(project: Path, tiny_disk: Path) -> None:
    """The run stops with the reason and can be tried again; with space it goes on to the same result."""
    spec = spec_of("ditto")
    partition(Workspace(project), spec)
    with pytest.raises(
        FedshiftError, match=r"cannot be written: .*[Nn]o space left.*\n.*Free space"
    ) as caught:
        train(Workspace(project), spec, MACHINE)
    assert caught.value.retry
    subprocess.run(["mount", "-o", "remount,size=64m", str(tiny_disk)], check=True)
    assert train(Workspace(project), spec, MACHINE)["method"] == "ditto"


def test_an_output_folder_that_cannot_be_written(project: Path) -> None:
    spec = spec_of("fedavg")
    partition(Workspace(project), spec)
    run = Workspace(project).run(spec.run_name).path
    run.mkdir(parents=True)
    (run / "segments").write_text("a file where a folder must be")
    with pytest.raises(FedshiftError, match=r"segments.*cannot be written: .*\n.*run the same command again"):
        train(Workspace(project), spec, MACHINE)
    failure = json.loads((run / "failure.json").read_text())
    assert failure["retry"] is True
    assert "cannot be written" in failure["text"]


# ---- what a run stands on


def interrupted(project: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Path]:
    """A run that stopped after its second round, with a checkpoint."""
    from fedshift.federation.loop import Federation

    spec = spec_of("fedbn")
    partition(Workspace(project), spec)
    trained, calls = Federation._train, []

    def stop(self: Federation, *args: Any) -> None:
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        trained(self, *args)

    with monkeypatch.context() as patch:
        patch.setattr(Federation, "_train", stop)
        with pytest.raises(KeyboardInterrupt):
            train(Workspace(project), spec, MACHINE)
    return spec, Workspace(project).run(spec.run_name).path


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def foreign(path: Path) -> None:
    from safetensors import safe_open
    from safetensors.torch import save_file

    with safe_open(path, "pt") as file:
        tensors, metadata = {name: file.get_tensor(name) for name in file.keys()}, file.metadata()  # noqa: SIM118
    save_file(tensors, path, {**metadata, "identity": "another"})


def pickled(path: Path) -> None:
    torch.save({"w": torch.zeros(2)}, path)


@pytest.mark.parametrize(
    ("harm", "message"),
    [(cut, "is not whole"), (pickled, "is not whole"), (foreign, "belongs to run another")],
)
def test_a_checkpoint_that_cannot_be_used(
    project: Path, monkeypatch: pytest.MonkeyPatch, harm: Callable[[Path], None], message: str
) -> None:
    spec, run = interrupted(project, monkeypatch)
    harm(run / "checkpoint.safetensors")
    with pytest.raises(FedshiftError, match=message) as caught:
        train(Workspace(project), spec, MACHINE)
    assert "checkpoint.safetensors" in str(caught.value)
    assert re.search("Delete it|Move it away", str(caught.value))
    (run / "checkpoint.safetensors").unlink()
    assert train(Workspace(project), spec, Machine(torch.device("cpu")))["best_round"]


def test_data_that_changed_under_an_interrupted_run(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another partition under the same name: neither resumed from, nor silently trained on."""
    spec, _ = interrupted(project, monkeypatch)
    path = Workspace(project).partition(spec.partition_name)
    path.unlink()
    other = spec.model_copy(update={"seed": 1})
    path.symlink_to(partition(Workspace(project), other))
    with pytest.raises(FedshiftError, match="belongs to run"):
        train(Workspace(project), spec, MACHINE)


def test_no_partition(project: Path) -> None:
    with pytest.raises(FedshiftError, match=r"(?s)partitions.*fedshift partition"):
        train(Workspace(project), spec_of("fedavg", batch=16), MACHINE)
