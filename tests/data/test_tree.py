"""Trees of images and their addresses: canonical order, spellings, transparency, and every refusal."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, UnidentifiedImageError

from fedshift.common.errors import FedshiftError
from fedshift.data.dataset import Address, address
from fedshift.data.datasets.folder import Folder
from fedshift.data.datasets.office_caltech10 import OfficeCaltech10
from fedshift.data.datasets.pacs import PACS
from tests.data.conftest import draw, plant


def test_canonical_order_is_domains_classes_then_sorted_names(tmp_path: Path) -> None:
    plant(tmp_path, PACS.domains, PACS.classes, each=1)
    for seed, name in enumerate(("10.png", "9.png", "B.PNG"), start=9001):
        draw(tmp_path / "cartoon" / "dog" / name, seed=seed)
    index = PACS().index(tmp_path)
    assert list(dict.fromkeys(index["domain"])) == list(PACS.domains)
    assert list(index["path"][7:11]) == [
        f"cartoon/dog/{name}" for name in ("0.png", "10.png", "9.png", "B.PNG")
    ]
    assert index["label"].tolist() == [PACS.classes.index(name) for name in index["class"]]
    assert (index["group"] == -1).all() and (index["split"] == "").all()
    assert index.dtypes[["label", "group"]].astype(str).tolist() == ["int16", "int32"]


def test_other_spellings_give_the_same_index(tmp_path: Path) -> None:
    plant(tmp_path, OfficeCaltech10.domains, OfficeCaltech10.classes, each=1)
    expected, pixels = (
        OfficeCaltech10().index(tmp_path),
        OfficeCaltech10().content(tmp_path, "caltech/backpack/0.png"),
    )
    (tmp_path / "caltech").rename(tmp_path / "Caltech")
    (tmp_path / "Caltech" / "backpack").rename(tmp_path / "Caltech" / "back_pack")
    assert OfficeCaltech10().index(tmp_path).equals(expected)
    assert OfficeCaltech10().content(tmp_path, "caltech/backpack/0.png") == pixels


def test_the_tree_is_found_below_other_folders(tmp_path: Path) -> None:
    tree = plant(tmp_path / "a" / "b" / "c", ["photo"], ["dog"], each=1)
    assert PACS().root(tmp_path) == PACS().root(tree) == tree
    with pytest.raises(FedshiftError, match="no domain's folder in it"):
        PACS().root(tree / "photo")
    assert Folder().root(tmp_path) == Folder().root(tree) == tree
    plant(tmp_path, ["a"], ["b"], each=1)  # domain/class/image begins higher up now
    assert Folder().root(tmp_path) == tmp_path


def test_an_images_level_and_split_folders(tmp_path: Path) -> None:
    plant(tmp_path, PACS.domains, PACS.classes, each=1)
    (tmp_path / "photo").rename(tmp_path / "moved")
    (tmp_path / "photo").mkdir()
    (tmp_path / "moved").rename(tmp_path / "photo" / "images")
    (tmp_path / "cartoon").rename(tmp_path / "moved")
    (tmp_path / "cartoon").mkdir()
    (tmp_path / "moved").rename(tmp_path / "cartoon" / "train")
    draw(tmp_path / "cartoon" / "crossval" / "dog" / "0.png", seed=1)
    index = PACS().index(tmp_path).set_index("path")
    assert {"photo/dog/0.png", "cartoon/dog/train/0.png", "cartoon/dog/crossval/0.png"} < set(index.index)
    assert index["split"].value_counts().to_dict() == {"": 21, "train": 7, "crossval": 1}
    same = PACS().content(tmp_path, "cartoon/dog/crossval/0.png")
    assert same == (tmp_path / "cartoon" / "crossval" / "dog" / "0.png").read_bytes()
    assert PACS().image(tmp_path, "photo/dog/0.png").mode == "RGB"


def test_own_folder_may_have_classes_called_images_and_train(tmp_path: Path) -> None:
    plant(tmp_path, "A", ["images", "train"], each=1)
    index = Folder().index(tmp_path)
    assert index["path"].tolist() == ["A/images/0.png", "A/train/0.png"] and set(index["split"]) == {""}


def test_identical_files_share_a_group(tmp_path: Path) -> None:
    plant(tmp_path, "AB", "xy")
    shutil.copy(tmp_path / "A" / "y" / "0.png", tmp_path / "A" / "y" / "copy.png")
    shutil.copy(tmp_path / "B" / "x" / "1.png", tmp_path / "B" / "x" / "copy.png")
    index = Folder().index(tmp_path).set_index("path")["group"]
    assert index[index >= 0].to_dict() == {
        "A/y/0.png": 0,
        "A/y/copy.png": 0,
        "B/x/1.png": 1,
        "B/x/copy.png": 1,
    }


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda root: shutil.rmtree(root / "photo" / "dog"), "no images in photo/dog"),
        (lambda root: (root / "photo" / "dog" / "0.png").unlink(), "no images in photo/dog"),
        (lambda root: draw(root / "photo" / "zebra" / "0.png"), "unexpected folder: photo/zebra"),
        (lambda root: draw(root / "clipart" / "dog" / "0.png"), "unexpected folder: clipart"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(tmp_path: Path, spoil: object, reason: str) -> None:
    plant(tmp_path, PACS.domains, PACS.classes, each=1)
    assert callable(spoil)
    spoil(tmp_path)
    with pytest.raises(FedshiftError, match=reason):
        PACS().index(tmp_path)


def test_modes_become_rgb_and_rotation_is_undone(tmp_path: Path) -> None:
    folder = tmp_path / "A" / "x"
    folder.mkdir(parents=True)
    grey = Image.fromarray(np.arange(6, dtype=np.uint8).reshape(2, 3) * 40)
    grey.save(folder / "grey.png")
    grey.convert("P").save(folder / "palette.gif")
    exif = Image.Exif()
    exif[0x0112] = 6  # stored lying on its side: turn it by 90 degrees clockwise
    grey.convert("RGB").save(folder / "turned.png", exif=exif)
    expected = np.repeat(np.array(grey)[..., None], 3, axis=2)
    for name in ("grey.png", "palette.gif"):
        np.testing.assert_array_equal(np.array(Folder().image(tmp_path, f"A/x/{name}")), expected)
    turned = np.array(Folder().image(tmp_path, "A/x/turned.png"))
    np.testing.assert_array_equal(turned, np.rot90(expected, k=-1))


@pytest.mark.parametrize("kind", ["EPS", "ICO"])
def test_no_other_decoder_of_pillow_is_asked(tmp_path: Path, kind: str) -> None:
    """Whatever the name says: EPS, for one, starts Ghostscript."""
    (tmp_path / "A" / "x").mkdir(parents=True)
    Image.new("RGB", (16, 16)).save(tmp_path / "A" / "x" / "0.jpg", format=kind)
    with pytest.raises(UnidentifiedImageError):
        Folder().image(tmp_path, "A/x/0.jpg")


def drawing() -> Image.Image:
    """A black square on a ground that is wholly transparent, as image editors save it."""
    image = Image.new("RGBA", (16, 16), (0, 0, 0, 0))
    image.paste((0, 0, 0, 255), (4, 4, 10, 12))
    return image


@pytest.mark.parametrize("case", ["P", "GIF", "RGB", "half"])
def test_every_form_of_transparency_is_seen(tmp_path: Path, case: str) -> None:
    folder = tmp_path / "a" / "x"
    folder.mkdir(parents=True)
    ink = 0
    if case == "P":
        drawing().quantize(8).save(folder / "0.png")
    elif case == "GIF":
        drawing().save(folder / "0.gif")
    elif case == "half":
        image = Image.new("RGBA", (16, 16), (0, 0, 0, 0))
        image.paste((0, 0, 0, 128), (4, 4, 10, 12))
        image.save(folder / "0.png")
        ink = 127
    else:  # one colour is transparent (PNG's tRNS)
        image = Image.new(case, (16, 16), (9, 9, 9))
        image.paste((0, 0, 0), (4, 4, 10, 12))
        image.save(folder / "0.png", transparency=(9, 9, 9))
    (path,) = folder.iterdir()
    pixels = np.asarray(Folder().image(tmp_path, f"a/x/{path.name}"))
    assert (pixels[0, 0] == 255).all() and (pixels[6, 6] == ink).all()


def test_a_folder_of_the_users_own_is_called_like_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my clinics").mkdir()
    path = tmp_path / "my clinics"
    assert address(f"folder:{path}") == Address("folder", "my-clinics", path)
    monkeypatch.chdir(tmp_path)
    assert address("folder:my clinics").release == "my-clinics"
    assert address("folder:clinics") == Address("folder", "clinics", None)  # was fetched under this name


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("digts", "Did you mean 'digits'?"),
        ("digits:new", "unknown release 'new'"),
        ("folder", "Name it: folder:PATH."),
        ("folder:/no/such/tree", "there is no folder '/no/such/tree'"),
    ],
)
def test_mistakes_are_refused(text: str, message: str) -> None:
    with pytest.raises(FedshiftError, match=message.replace("?", r"\?")):
        address(text)


def test_a_tree_may_be_given_a_name(tmp_path: Path) -> None:
    (tmp_path / "a=b").mkdir()
    assert address(f"folder:mine={tmp_path}") == Address("folder", "mine", tmp_path)
    assert address(f"folder:{tmp_path}/a=b") == Address("folder", "a-b", tmp_path / "a=b")
    for name in ("a/b", "..", "x" * 101):
        with pytest.raises(FedshiftError, match=f"Name it: --data folder:NAME={tmp_path}"):
            address(f"folder:{name}={tmp_path}")


@pytest.mark.parametrize("suffix", ["jfif", "JPG"])
def test_a_jpeg_may_have_any_of_its_suffixes(tmp_path: Path, suffix: str) -> None:
    draw(tmp_path / "A" / "x" / "0.jpg").rename(tmp_path / "A" / "x" / f"0.{suffix}")
    assert list(Folder().index(tmp_path)["path"]) == [f"A/x/0.{suffix}"]
    assert Folder().image(tmp_path, f"A/x/0.{suffix}").mode == "RGB"
