"""Raw trees under DVC: every one is seen, pushed, pulled and kept, and a folder of the user's own stays as it is."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from dvc.repo import Repo

from fedshift.cli import main
from fedshift.common.registry import names
from tests.data.conftest import plant

ROOT = Path(__file__).parents[2]


pytest.importorskip("dvc")


def git(root: Path, *words: str) -> str:
    command = ["git", "-C", str(root), "-c", "user.name=test", "-c", "user.email=test@example.org", *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A git checkout with the project's own settings of git and DVC, and nothing else; its remote is a folder."""
    root = tmp_path / "project"
    (root / ".dvc").mkdir(parents=True)
    for name in (".gitignore", ".dvcignore", ".dvc/.gitignore"):
        shutil.copy2(ROOT / name, root / name)
    (root / ".dvc" / "config").write_text(
        f"[core]\nremote = there\nanalytics = false\n['remote \"there\"']\nurl = {tmp_path / 'remote'}\n"
    )
    git(root, "init", "--quiet")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "project")
    return root


def fetch(root: Path, *words: str | Path) -> Result:
    return CliRunner().invoke(main, ["--root", str(root), "fetch", *map(str, words)])


def facts(tree: Path) -> dict[Path, tuple[int, int, int, bytes]]:
    """Of each file its inode, mode, time and bytes."""
    stats = {path: path.stat() for path in tree.rglob("*") if path.is_file()}
    return {path: (at.st_ino, at.st_mode, at.st_mtime_ns, path.read_bytes()) for path, at in stats.items()}


def held(tree: Path) -> dict[str, bytes]:
    """Every file by its path; links are followed."""
    files = [Path(folder) / name for folder, _, own in os.walk(tree, followlinks=True) for name in own]
    return {path.relative_to(tree).as_posix(): path.read_bytes() for path in files}


def test_dvc_sees_the_raw_tree_of_every_data_set(project: Path) -> None:
    releases = [f"{name}/original.dvc" for name in names("datasets")] + ["folder/my.own-photos.dvc"]
    assert len(releases) == 11
    for release in releases:
        pointer = project / "data" / "raw" / release
        pointer.parent.mkdir(parents=True, exist_ok=True)
        out = pointer.name.removesuffix(".dvc")
        pointer.write_text(f"outs:\n- md5: {'0' * 32}.dir\n  hash: md5\n  path: {out}\n")
        plant(pointer.with_suffix(""), "A", "x", 1)
        pointer.with_name("original.manifest.json").write_text("{}")
    with Repo(str(project)) as repo:
        seen = {stage.path for stage in repo.index.stages}
    assert seen == {str(project / "data" / "raw" / name) for name in releases}
    listed = git(project, "status", "--porcelain", "--untracked-files=all").splitlines()
    assert sorted(listed) == sorted(f"?? data/raw/{name}" for name in releases)  # no image and no manifest


def test_own_images_are_versioned_and_travel_to_another_clone(project: Path, tmp_path: Path) -> None:
    tree, elsewhere = plant(tmp_path / "tree", "AB", "xy"), plant(tmp_path / "elsewhere", "C", "xy")
    (tree / "C").symlink_to(elsewhere / "C")
    (tree / "A" / "x" / "link.png").symlink_to("0.png")
    before, images = {**facts(tree), **facts(elsewhere)}, held(tree)
    done = fetch(project, "folder", "--from", tree, "--release", "mine")
    assert done.exit_code == 0, done.output
    pointer = "data/raw/folder/mine.dvc"
    assert f"git add {pointer}" in done.output
    assert git(project, "status", "--porcelain", "--untracked-files=all").split() == ["??", pointer]
    raw = project / "data" / "raw" / "folder" / "mine"
    assert held(raw) == images and not raw.is_symlink()
    stored = [path for path in (project / ".dvc" / "cache").rglob("*") if path.is_file()]
    assert sum(path.stat().st_nlink > 1 for path in stored) == len({*images.values()})  # no second copy
    git(project, "add", pointer)
    git(project, "commit", "--quiet", "--message", "images")
    assert f"the version in {pointer}" in fetch(project, "folder", "--from", tree, "--release", "mine").output
    with Repo(str(project)) as repo:
        assert repo.push() == len({*images.values()}) + 1
        repo.gc(workspace=True)
        assert repo.status() == {} and repo.diff() == {}
    assert {**facts(tree), **facts(elsewhere)} == before
    second = tmp_path / "second"
    git(tmp_path, "clone", "--quiet", str(project), str(second))
    with Repo(str(second)) as repo:
        repo.pull()
        assert repo.status() == {}
    assert held(second / "data" / "raw" / "folder" / "mine") == images


def test_what_changed_is_named_and_nothing_is_replaced(project: Path, tmp_path: Path) -> None:
    tree = plant(tmp_path / "tree", "AB", "xy")
    fetch(project, "folder", "--from", tree, "--release", "mine")
    raw, pointer = project / "data/raw/folder/mine", project / "data/raw/folder/mine.dvc"
    version, image = pointer.read_text(), tree / "A" / "x" / "0.png"
    data = image.read_bytes()
    image.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))  # as long as before
    refused = fetch(project, "folder", "--from", tree, "--release", "mine")
    assert refused.exit_code == 2 and "exists already" in refused.output
    image.write_bytes(data)  # the same bytes at another time
    assert fetch(project, "folder", "--from", tree, "--release", "mine").exit_code == 0
    shutil.copy2(raw / "A" / "x" / "0.png", raw / "A" / "x" / "9.png")
    told = fetch(project, "folder", "--release", "mine")
    assert "dvc commit data/raw/folder/mine.dvc" in told.output and pointer.read_text() == version


@pytest.mark.parametrize("absent", [".git", ".dvc"])
def test_without_git_or_dvc_images_are_fetched_and_one_line_says_what_is_not(
    project: Path, tmp_path: Path, absent: str
) -> None:
    shutil.rmtree(project / absent)
    tree = plant(tmp_path / "tree", "AB", "xy")
    done = fetch(project, "folder", "--from", tree, "--release", "mine")
    assert done.exit_code == 0, done.output
    assert (project / "data/raw/folder/mine").resolve() == tree
    assert [line for line in done.output.splitlines() if "not under DVC" in line] == [
        done.output.splitlines()[-1]
    ]
    pulled = CliRunner().invoke(main, ["--root", str(project), "pull"])
    assert pulled.exit_code == 2 and "Traceback" not in pulled.output
    assert ("no_scm" if absent == ".git" else "not a DVC project") in pulled.output


@pytest.mark.slow
@pytest.mark.parametrize("name", ["office_caltech10", "pacs"])
def test_the_committed_versions_are_those_of_the_real_images(name: str, shared: Path, project: Path) -> None:
    committed = (ROOT / "data" / "raw" / name / "original.dvc").read_bytes()
    done = fetch(project, name, "--from", shared / "data" / name)
    assert done.exit_code == 0, done.output
    assert (project / "data" / "raw" / name / "original.dvc").read_bytes() == committed
