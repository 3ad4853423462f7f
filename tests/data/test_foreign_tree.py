"""A tree that nobody here made, through the verbs: what can be read is trained on, all else is left out or refused with its place."""

import json
import math
import os
import shutil
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from PIL import Image

from fedshift.data.datasets.folder import Folder
from fedshift.data.partition import partition
from fedshift.data.prepare import load_prepared, prepare
from fedshift.data.state import State, states
from fedshift.data.tree import eight_bit, read_image
from fedshift.data.verify import verify, write_manifest
from fedshift.planning import planfile
from fedshift.spec.settings import Prepare, Source
from fedshift.storage.workspace import Workspace
from tests.data.conftest import draw, plant
from tests.data.test_partition import make_spec
from tests.verbs import done, fedshift, refused

PX = 16
RELEASE = ("--release", "mine")
EXPERIMENT = {
    "title": "Mine",
    "protocol": "digits",
    "spec": {
        "data": {"dataset": "folder", "release": "mine", "prepare": {"px": PX}, "input_px": PX},
        "local": {"batch": 4, "epochs": 1},
        "federation": {"rounds": 1},
    },
    "methods": {"fedavg": None},
    "axes": {"target": ["Über Nacht"], "seed": [0]},
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Three domains with unequal classes, one of them a link; images of many kinds and sizes; and what systems leave behind."""
    root, elsewhere = tmp_path / "My Pictures", tmp_path / "elsewhere"
    cars, trees = root / "day" / "red car", root / "day" / "Bäume"
    noise = Image.open(draw(cars / "plain.png", size=(20, 14)))
    noise.convert("L").save(cars / "grey.PNG")
    noise.convert("P").save(cars / "palette.png")
    noise.convert("RGBA").save(cars / "alpha.png")
    noise.convert("1").save(cars / "one bit.bmp")
    noise.convert("CMYK").save(cars / "printed.JPG")
    noise.save(cars / "moving.gif", save_all=True, append_images=[Image.new("RGB", noise.size)])
    exif = Image.Exif()
    exif[0x0112] = 6  # lies on its side
    noise.save(cars / "turned.jpeg", exif=exif)
    draw(cars / "dot.png", size=(1, 1))
    draw(cars / "wide.tiff", size=(3000, 2))
    draw(trees / "日本.webp")
    plant(elsewhere, ["night"], ["red car", "cat"], each=3)
    (root / "Über Nacht").symlink_to(elsewhere / "night")
    (root / "dusk" / "Bäume").mkdir(parents=True)  # empty
    plant(root, ["dusk"], ["red car"], each=4)
    (root / "dusk" / "red car" / "link.png").symlink_to(cars / "grey.PNG")
    for litter in ("README.md", ".DS_Store", "__MACOSX/day/._plain.png", "day/Thumbs.db", "day/red car/._plain.png", "dusk/red car/desktop.ini"):  # fmt: skip
        (root / litter).parent.mkdir(parents=True, exist_ok=True)
        (root / litter).write_bytes(b"litter")
    return root


def fetched(project: Path, source: Path) -> str:
    return done(fedshift(project, "fetch", "folder", *RELEASE, "--from", str(source)))


def prepared(project: Path) -> tuple[np.ndarray, list[str]]:
    """Pixels and paths."""
    done(fedshift(project, "prepare", "folder", *RELEASE, "--px", str(PX)))
    source = Source(dataset="folder", release="mine", prepare=Prepare(px=PX))
    content = load_prepared(Workspace(project).prepared(source.prepared_name))
    images, index = content.pixels, content.index
    return images, list(index["path"])


def test_from_the_tree_to_a_trained_model(project: Path, tree: Path) -> None:
    torch.set_num_threads(1)
    told = fetched(project, tree)
    assert "domains (3): day, dusk, Über Nacht; classes (3): Bäume, cat, red car" in told
    assert "22 files" in done(fedshift(project, "verify", "folder", *RELEASE))
    images, paths = prepared(project)
    names = ("alpha.png", "dot.png", "grey.PNG", "moving.gif", "one bit.bmp", "palette.png", "plain.png", "printed.JPG", "turned.jpeg", "wide.tiff")  # fmt: skip
    assert paths == [
        "day/Bäume/日本.webp",
        *(f"day/red car/{name}" for name in names),
        *(f"dusk/red car/{name}" for name in ("0.png", "1.png", "2.png", "3.png", "link.png")),
        *(f"Über Nacht/{label}/{k}.png" for label in ("cat", "red car") for k in range(3)),
    ]
    by_path = dict(zip(paths, images, strict=True))
    plain, grey = by_path["day/red car/plain.png"], by_path["day/red car/grey.PNG"]
    assert (by_path["day/red car/alpha.png"] == plain).all()
    assert (by_path["dusk/red car/link.png"] == grey).all() and (grey[..., 0] == grey[..., 2]).all()
    for lossy, difference in (("moving.gif", 30), ("palette.png", 30), ("printed.JPG", 60)):
        assert np.abs(by_path[f"day/red car/{lossy}"].astype(int) - plain).mean() < difference, lossy

    (project / "experiments" / "mine.yaml").write_text(yaml.safe_dump(EXPERIMENT))
    plan = project / done(fedshift(project, "plan", "mine", "--print", "path")).strip()
    done(fedshift(project, "partition", "--plan", str(plan)))
    (run,) = planfile.runs(plan)
    done(fedshift(project, "train-pack", "--plan", str(plan), run.digest))
    summary = json.loads((project / run.directory / "summary.json").read_text())
    assert summary["classes"] == ["Bäume", "cat", "red car"] and summary["target"] == "Über Nacht"
    assert [(one["domains"], one["train"] + one["val"] + one["test"]) for one in summary["clients"]] == [(["day"], 11), (["dusk"], 5)]  # fmt: skip


def test_images_that_cannot_be_read_are_all_named_with_the_reason(project: Path, tmp_path: Path) -> None:
    root = plant(tmp_path / "tree", ["a", "b c"], "xy", each=3)
    broken = {
        "a/x/cut.jpg": "image file is truncated",
        "a/x/vector.jpg": "cannot identify image file",
        "a/y/huge.png": "exceeds limit of",
        "a/y/float.tif": "values that are not finite",
        "b c/y/text.jpg": "cannot identify image file",
    }
    whole = draw(root / "a" / "x" / "cut.jpg", size=(64, 64))
    whole.write_bytes(whole.read_bytes()[:-400])
    Image.new("RGB", (4, 4)).save(root / "a/x/vector.jpg", format="EPS")  # Pillow would start Ghostscript
    (root / "a/y/huge.png").write_bytes(png_of(30_000))
    Image.new("F", (4, 4), math.nan).save(root / "a/y/float.tif")
    (root / "b c/y/text.jpg").write_text("no image")
    fetched(project, root)
    result = fedshift(project, "prepare", "folder", *RELEASE, "--px", str(PX))
    refused(result, "5 images cannot be read:")
    for path, reason in broken.items():
        (line,) = [line for line in result.output.splitlines() if line.strip().startswith(f"{path}: ")]
        assert reason in line
        (root / path).unlink()
    # a tree that was touched is verified anew
    again = fedshift(project, "prepare", "folder", *RELEASE, "--px", str(PX))
    refused(again, "5 missing", "b c/y/text.jpg", "fedshift verify folder --release mine --write-manifest")
    done(fedshift(project, "verify", "folder", *RELEASE, "--write-manifest"))
    assert len(prepared(project)[1]) == 12


@pytest.mark.parametrize(("mode", "suffix"), [("I;16", "png"), ("I;16", "tif"), ("F", "tif")])
def test_grey_of_more_than_8_bits_spans_the_image_from_dark_to_bright(
    mode: str, suffix: str, tmp_path: Path
) -> None:
    """As X-ray and CT exports are: 12 bits of 16, of which the upper 8 alone would be nearly black."""
    values = np.array([[100, 612], [1124, 4196]], dtype=np.uint16 if mode == "I;16" else np.float32)
    Image.fromarray(values).save(path := tmp_path / f"deep.{suffix}")
    found = np.asarray(read_image(path))
    wanted = ((values - 100.0) * 255 / 4096).round()
    np.testing.assert_array_equal(found, np.repeat(wanted[..., None], 3, 2))
    assert not eight_bit(np.full((2, 2), 9.0)).any()


def png_of(side: int) -> bytes:
    """A PNG file of so many pixels squared, of which the header alone is there."""
    chunks = [b"IHDR" + struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0), b"IDAT"]
    packed = [
        struct.pack(">I", len(chunk) - 4) + chunk + struct.pack(">I", zlib.crc32(chunk)) for chunk in chunks
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(packed)


def latin_name(root: Path) -> None:
    """As an archive leaves it that was packed under Windows."""
    shutil.copy(os.fsencode(root / "a/x/0.png"), os.fsencode(root / "a/x") + b"/stra\xdfe.png")


@pytest.mark.parametrize(
    ("spoil", "named"),
    [
        (lambda root: (root / "a/x/gone.png").symlink_to(root / "nowhere.png"), "a/x/gone.png"),
        (latin_name, r"a/x/stra\xdfe.png"),
        (lambda root: draw(root / "a/x/two\rlines.png"), r"a/x/two\rlines.png"),
        (lambda root: (root / "a/x/empty.png").touch(), "a/x/empty.png"),
        (lambda root: draw(root / "a/x/more/0.png"), "a/x/more"),
        (lambda root: (root / "b c/y/labels.csv").write_text("0.png,3"), "b c/y/labels.csv"),
        (lambda root: draw(root / "a/0.png"), "a/0.png"),
        (lambda root: (root / "a/z").mkdir(), "no images in z"),
    ],
)
def test_a_tree_that_is_none_is_refused_at_once(
    project: Path, tmp_path: Path, spoil: Callable[[Path], None], named: str
) -> None:
    root = plant(tmp_path / "tree", ["a", "b c"], "xy", each=1)
    spoil(root)
    refused(fedshift(project, "fetch", "folder", *RELEASE, "--from", str(root)), named)
    assert not os.path.lexists(project / "data/raw/folder/mine")
    assert not list((project / "data/raw/folder").iterdir())


@pytest.fixture
def sound(tmp_path: Path) -> Path:
    """Two domains of two classes with three images each."""
    return plant(tmp_path / "sound", ["day", "night"], ["cat", "dog"], each=3)


def paths(project: Path) -> list[str]:
    return Folder().paths(Workspace(project).raw("folder", "mine"))


def test_ignored_files_do_not_belong_to_the_tree(sound: Path, project: Path) -> None:
    (sound / "day" / "cat" / "notes.txt").write_text("a note")
    draw(sound / "night" / "dog" / "small_0.png")
    draw(sound / "overview.png")
    refused(
        fedshift(project, "fetch", "folder", *RELEASE, "--from", str(sound)),
        "not an image: day/cat/notes.txt",
    )
    ignore = ("--ignore", "*.txt", "--ignore", "night/*/small_*", "--ignore", "overview.png")
    done(fedshift(project, "fetch", "folder", *RELEASE, "--from", str(sound), *ignore))
    assert len(paths(project)) == 12 and not any("small" in path for path in paths(project))
    done(fedshift(project, "verify", "folder", *RELEASE))


def test_broken_images_are_left_out_and_named(sound: Path, project: Path) -> None:
    """A cut-off image, an empty file, and one of 100 million pixels."""
    (sound / "day" / "cat" / "1.png").write_bytes((sound / "day" / "cat" / "1.png").read_bytes()[:60])
    (sound / "day" / "dog" / "2.png").write_bytes(b"")
    (sound / "night" / "cat" / "0.png").write_bytes(png_of(10_000))
    refused(fedshift(project, "fetch", "folder", *RELEASE, "--from", str(sound)), "empty file: day/dog/2.png")
    told = done(fedshift(project, "fetch", "folder", *RELEASE, "--from", str(sound), "--skip-broken"))
    assert "left out: day/cat/1.png: " in told
    assert "left out: night/cat/0.png: ValueError: 10000 x 10000 pixels are more than 80,000,000" in told
    noted = json.loads((project / "data" / "raw" / "folder" / "mine.left_out.json").read_text())
    assert sorted(noted["broken"]) == ["day/cat/1.png", "day/dog/2.png", "night/cat/0.png"]
    assert len(paths(project)) == 9
    done(fedshift(project, "prepare", "folder", *RELEASE, "--px", "8"))
    (folder,) = filter(Path.is_dir, (project / "data" / "prepared" / "folder").iterdir())
    assert load_prepared(folder).pixels.shape == (9, 8, 8, 3)


def test_each_step_is_seen(workspace: Workspace, tmp_path: Path) -> None:
    workspace.root.mkdir()
    assert states(workspace, "folder") == {}
    tree = plant(tmp_path / "tree", "AB", "xy", each=5)
    fedshift(workspace.root, "fetch", "folder", "--release", "mine", "--from", str(tree))
    assert states(workspace, "folder") == {"mine": State("raw")}
    verify(workspace, "folder", "mine")
    assert states(workspace, "folder") == {"mine": State("verified", 20)}
    for px in (32, 16):
        prepare(workspace, "folder", "mine", Prepare(px=px), jobs=1)
    assert states(workspace, "folder") == {"mine": State("verified", 20, (16, 32))}
    spec = make_spec(dataset="folder")
    partition(workspace, spec.model_copy(update={"data": spec.data.model_copy(update={"release": "mine"})}))
    assert states(workspace, "folder") == {"mine": State("verified", 20, (16, 32), 1)}
    lines = fedshift(workspace.root, "list", "datasets").output.splitlines()
    assert "mine: verified, 20 files, prepared (16, 32 px), partitioned (1)" in [
        line.strip() for line in lines
    ]
    (tree / "A" / "x" / "more.png").write_bytes((tree / "A" / "x" / "0.png").read_bytes())
    write_manifest(workspace, "folder", "mine")  # another one than it was verified by
    assert states(workspace, "folder") == {"mine": State("raw", 0, (16, 32), 1)}
