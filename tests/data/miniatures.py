"""Miniatures of every data set, one for each accepted raw layout: random images of a few pixels, as members of an archive."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from fedshift.common.registry import get
from fedshift.data.dataset import Dataset
from fedshift.data.datasets.domainnet import CLASSES, DOMAINS
from fedshift.data.datasets.domainnet10 import TEN

Members = dict[str, bytes]
WORDS = ("train", "train", "crossval", "test")


def picture(seed: int) -> bytes:
    buffer = io.BytesIO()
    pixels = np.random.default_rng(seed).integers(0, 256, (9, 12, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(buffer, format="JPEG")
    return buffer.getvalue()


def members(dataset: type[Dataset], place: Callable[[str, str, int], str], each: int = 4) -> Members:
    """`each` images of every class in every domain, where `place` puts them."""
    cells = [
        (domain, label, k) for domain in dataset.domains for label in dataset.classes for k in range(each)
    ]
    return {place(*cell): picture(seed) for seed, cell in enumerate(cells)}


def spread(root: str = "") -> Members:
    """DomainNet with each class in one domain, the ten in all: one image, and a list of all that is clean beside them."""
    cells = [(DOMAINS[k % 6], label) for k, label in enumerate(CLASSES) if label not in TEN]
    cells += [(domain, label) for domain in DOMAINS for label in TEN for _ in range(3)]
    return {f"{root}{domain}/{label}/{seed}.jpg": picture(seed) for seed, (domain, label) in enumerate(cells)}


def pacs(root: str) -> Members:
    from fedshift.data.datasets.pacs import PACS

    return members(PACS, lambda domain, label, k: f"{root}/{domain}/{label}/pic_{k}.jpg")


def vlcs(place: Callable[[str, int, int], str]) -> Members:
    from fedshift.data.datasets.vlcs import VLCS

    return members(VLCS, lambda domain, label, k: place(domain, VLCS.classes.index(label), k))


def vlcs_dassl() -> Members:
    found = vlcs(lambda domain, label, k: f"VLCS/{domain.upper()}/{WORDS[k]}/{label}/imgs_{k % 2}.jpg")
    whole = {f"VLCS/CALTECH/full/0/{k}.jpg": content for k, content in enumerate(list(found.values())[:4])}
    return {**found, **whole, "VLCS/readme.txt": b""}


def vlcs_domainbed() -> Members:
    theirs = {"caltech": "Caltech101", "labelme": "LabelMe", "pascal": "VOC2007", "sun": "SUN09"}
    names = ("bird", "car", "chair", "dog", "person")
    return vlcs(lambda domain, label, k: f"VLCS/{theirs[domain]}/{names[label]}/{k}.jpg")


def office_home(place: Callable[[str, str, int], str]) -> Members:
    return members(get("datasets", "office_home"), place, each=3)


def office_home_authors() -> Members:
    theirs = {"art": "Art", "clipart": "Clipart", "product": "Product", "real_world": "Real World"}
    return office_home(
        lambda domain, label, k: f"OfficeHomeDataset_10072016/{theirs[domain]}/{label}/{k:05d}.jpg"
    )


def office_home_dassl() -> Members:
    words = ("train", "train", "val")
    return office_home(lambda domain, label, k: f"office_home_dg/{domain}/{words[k]}/{label.lower()}/{k}.jpg")


def office_caltech(place: Callable[[str, str, int], str]) -> Members:
    return members(get("datasets", "office_caltech10"), place)


def office_repository() -> Members:
    def place(domain: str, label: str, k: int) -> str:
        return f"Office-91ad/{domain.replace('caltech', 'Caltech')}/{label.replace('backpack', 'back_pack')}/{k}.jpg"

    return office_caltech(place)


def office_images() -> Members:
    return office_caltech(
        lambda domain, label, k: f"{domain}/images/{label.removesuffix('_computer')}/{k}.JPG"
    )


def digits_dg() -> Members:
    words = ("train", "train", "train", "val")
    dataset = get("datasets", "digits_dg")
    return members(dataset, lambda domain, label, k: f"digits_dg/{domain}/{words[k]}/{label}/{k}.jpg")


@dataclass(frozen=True)
class Layout:
    """A release whose archive holds `build()`: so many images, with these words of a split, of which `listed` domains have lists."""

    name: str
    release: str
    build: Callable[[], Members]
    images: int
    words: frozenset[str] = frozenset({""})
    listed: tuple[str, ...] = ()


FOLDERS = frozenset({"train", "val"})
LISTS = frozenset({"train", "test"})
MINI = ("clipart", "painting", "real", "sketch")
# 28, 20, 40 and 40 cells of four images, 260 of three; DomainNet: 335 classes with one image, 60 cells with three; 222 of the 335 lie in
# the four domains of MINI. Lists leave one image of every domain out.
LAYOUTS = {
    "pacs-repository": Layout("pacs", "original", lambda: pacs("Homework3-PACS-d586/PACS"), 112),
    "pacs-dassl": Layout("pacs", "original", lambda: {**pacs("pacs/images"), "pacs/splits/a.txt": b""}, 112),
    "pacs-domainbed": Layout("pacs", "original", lambda: pacs("kfold"), 112),
    "vlcs-dassl": Layout("vlcs", "original", vlcs_dassl, 80, frozenset(WORDS)),
    "vlcs-domainbed": Layout("vlcs", "domainbed", vlcs_domainbed, 80),
    "office_home-authors": Layout("office_home", "original", office_home_authors, 780),
    "office_home-dassl": Layout("office_home", "dassl", office_home_dassl, 780, FOLDERS),
    "office_caltech10-repository": Layout("office_caltech10", "original", office_repository, 160),
    "office_caltech10-images": Layout("office_caltech10", "original", office_images, 160),
    "digits_dg": Layout("digits_dg", "original", digits_dg, 160, FOLDERS),
    "domainnet-original": Layout("domainnet", "original", spread, 515),
    "domainnet-cleaned": Layout("domainnet", "cleaned", spread, 515 - 6, LISTS, DOMAINS),
    "domainnet10-fdse": Layout("domainnet10", "original", spread, 180 - 6, LISTS, DOMAINS),
    "domainnet10-fedbn": Layout(
        "domainnet10", "fedbn", lambda: spread("DomainNet/"), 180 - 6, LISTS, DOMAINS
    ),
    "mini_domainnet-ten": Layout("mini_domainnet", "original", spread, 180),
    "mini_domainnet-list126": Layout("mini_domainnet", "list126", spread, 222 + 180 - 4, LISTS | {""}, MINI),
}


def official(folder: Path, content: Members, domains: tuple[str, ...]) -> Path:
    """Lists that leave one image of every domain out: two of three to train, the others to test."""
    folder.mkdir()
    for domain in domains:
        paths = sorted(
            path.removeprefix("DomainNet/")
            for path in content
            if path.removeprefix("DomainNet/").startswith(f"{domain}/")
        )
        paths.remove(next(path for path in paths if "/bird/" in path))
        for word, chosen in (("train", [p for i, p in enumerate(paths) if i % 3]), ("test", paths[::3])):
            lines = "".join(f"{path} {CLASSES.index(path.split('/')[1])}\n" for path in chosen)
            (folder / f"{domain}_{word}.txt").write_text(lines)
    return folder
