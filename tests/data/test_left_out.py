"""Files that a user leaves out of a tree, and images that cannot be read."""

from __future__ import annotations

import json
import struct
import zlib
from pathlib import Path

import pytest

from fedshift.data.datasets.folder import Folder
from fedshift.data.prepare import load_prepared
from fedshift.storage.workspace import Workspace
from tests.data.conftest import draw, plant
from tests.verbs import done, fedshift, refused

FETCH = ("fetch", "folder", "--release", "mine")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Two domains of two classes with three images each."""
    return plant(tmp_path / "tree", ["day", "night"], ["cat", "dog"], each=3)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "project" / "reference").mkdir(parents=True)
    return tmp_path / "project"


def paths(root: Path) -> list[str]:
    return Folder().paths(Workspace(root).raw("folder", "mine"))


def flat(width: int, height: int) -> bytes:
    """A PNG of so many black pixels in a few kilobytes."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = zlib.compress(bytes(1 + width // 8) * height)
    header = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def test_ignored_files_do_not_belong_to_the_tree(tree: Path, root: Path) -> None:
    (tree / "day" / "cat" / "notes.txt").write_text("a note")
    draw(tree / "night" / "dog" / "small_0.png")
    draw(tree / "overview.png")
    refused(fedshift(root, *FETCH, "--from", str(tree)), "not an image: day/cat/notes.txt")
    ignore = ("--ignore", "*.txt", "--ignore", "night/*/small_*", "--ignore", "overview.png")
    done(fedshift(root, *FETCH, "--from", str(tree), *ignore))
    assert len(paths(root)) == 12 and not any("small" in path for path in paths(root))
    done(fedshift(root, "verify", "folder", "--release", "mine"))


def test_broken_images_are_left_out_and_named(tree: Path, root: Path) -> None:
    """A cut-off image, an empty file, and one of 100 million pixels in 20 kB."""
    (tree / "day" / "cat" / "1.png").write_bytes((tree / "day" / "cat" / "1.png").read_bytes()[:60])
    (tree / "day" / "dog" / "2.png").write_bytes(b"")
    (tree / "night" / "cat" / "0.png").write_bytes(flat(10_000, 10_000))
    refused(fedshift(root, *FETCH, "--from", str(tree)), "empty file: day/dog/2.png")
    told = done(fedshift(root, *FETCH, "--from", str(tree), "--skip-broken"))
    assert "left out: day/cat/1.png: " in told
    assert "left out: night/cat/0.png: ValueError: 10000 x 10000 pixels are more than 80,000,000" in told
    noted = json.loads((root / "data" / "raw" / "folder" / "mine.left_out.json").read_text())
    assert sorted(noted["broken"]) == ["day/cat/1.png", "day/dog/2.png", "night/cat/0.png"]
    assert len(paths(root)) == 9
    done(fedshift(root, "prepare", "folder", "--release", "mine", "--px", "8"))
    (folder,) = filter(Path.is_dir, (root / "data" / "prepared" / "folder").iterdir())
    assert load_prepared(folder).pixels.shape == (9, 8, 8, 3)


def test_what_is_left_out_is_said_anew(tree: Path, root: Path) -> None:
    (tree / "day" / "cat" / "1.png").write_bytes(b"no image")
    done(fedshift(root, *FETCH, "--from", str(tree), "--skip-broken"))
    draw(tree / "day" / "cat" / "1.png", seed=5)
    done(fedshift(root, *FETCH, "--skip-broken"))
    assert len(paths(root)) == 12
    assert not (root / "data" / "raw" / "folder" / "mine.left_out.json").exists()
    done(fedshift(root, "verify", "folder", "--release", "mine"))


def test_published_files_are_not_left_out(root: Path, tree: Path) -> None:
    refused(fedshift(root, "fetch", "pacs", "--from", str(tree), "--skip-broken"), "each with its hash")


def test_a_torn_note_is_named(tree: Path, root: Path) -> None:
    (tree / "day" / "cat" / "1.png").write_bytes(b"no image")
    done(fedshift(root, *FETCH, "--from", str(tree), "--skip-broken"))
    (root / "data" / "raw" / "folder" / "mine.left_out.json").write_text('{"bro')
    told = fedshift(root, "verify", "folder", "--release", "mine")
    refused(told, "mine.left_out.json", "is not whole", "Give --ignore and --skip-broken again")
