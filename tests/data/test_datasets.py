"""Every data set: a generated miniature in each accepted raw layout goes from a web server to a federation."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from fedshift.assemble import assemble
from fedshift.data.dataset import Archive, Dataset, Release
from fedshift.data.datasets.domainnet import CLASSES, DOMAINS, DomainNet
from fedshift.data.datasets.domainnet10 import TEN
from fedshift.data.datasets.mini_domainnet import MiniDomainNet
from fedshift.data.fetch import fetch
from fedshift.data.lists import REFERENCE, read_lists
from fedshift.data.partition import load_partition, partition
from fedshift.data.prepare import load_index, prepare
from fedshift.data.verify import verify, write_manifest
from fedshift.errors import FedshiftError
from fedshift.registry import get, names
from fedshift.resolve import resolve
from fedshift.spec import parse
from fedshift.workspace import Workspace
from tests.data.server import Server, zipped

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


LAYOUTS: dict[str, tuple[str, str, Callable[[], Members], set[str]]] = {
    "pacs-repository": ("pacs", "original", lambda: pacs("Homework3-PACS-d586/PACS"), {""}),
    "pacs-dassl": ("pacs", "original", lambda: {**pacs("pacs/images"), "pacs/splits/a.txt": b""}, {""}),
    "pacs-domainbed": ("pacs", "original", lambda: pacs("kfold"), {""}),
    "vlcs-dassl": ("vlcs", "original", vlcs_dassl, {"train", "crossval", "test"}),
    "vlcs-domainbed": ("vlcs", "domainbed", vlcs_domainbed, {""}),
    "office_home-authors": ("office_home", "original", office_home_authors, {""}),
    "office_home-dassl": ("office_home", "dassl", office_home_dassl, {"train", "val"}),
    "office_caltech10-repository": ("office_caltech10", "original", office_repository, {""}),
    "office_caltech10-images": ("office_caltech10", "original", office_images, {""}),
    "digits_dg": ("digits_dg", "original", digits_dg, {"train", "val"}),
    "domainnet-original": ("domainnet", "original", spread, {""}),
    "domainnet-cleaned": ("domainnet", "cleaned", spread, {"train", "test"}),
    "domainnet10-fdse": ("domainnet10", "original", spread, {"train", "test"}),
    "domainnet10-fedbn": ("domainnet10", "fedbn", lambda: spread("DomainNet/"), {"train", "test"}),
    "mini_domainnet-ten": ("mini_domainnet", "original", spread, {""}),
    "mini_domainnet-list126": ("mini_domainnet", "list126", spread, {"train", "test", ""}),
}


@pytest.fixture
def at_home(
    monkeypatch: pytest.MonkeyPatch, server: Server
) -> Iterator[Callable[[str, str, Members], Release]]:
    """Puts an archive on the server and makes it the one address of a release, which has no manifest of the project's then."""

    def install(name: str, release: str, content: Members) -> Release:
        server.content = zipped(content)
        server.breaks = [len(server.content) // 2]
        dataset = get("datasets", name)
        facts = replace(
            dataset.releases[release], archives=(Archive(server.url, "this test"),), manifest=None
        )
        monkeypatch.setattr(dataset, "releases", {**dataset.releases, release: facts})
        return facts

    yield install


def official(folder: Path, content: Members, domains: tuple[str, ...]) -> Path:
    """Lists that leave one image of `clipart/bird` out: two of three to train, the others to test."""
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


@pytest.mark.parametrize("layout", LAYOUTS)
def test_miniature_from_the_server_to_a_federation(
    layout: str,
    workspace: Workspace,
    tmp_path: Path,
    server: Server,
    at_home: Callable[[str, str, Members], Release],
) -> None:
    torch.set_num_threads(1)
    name, release, build, words = LAYOUTS[layout]
    content = build()
    facts = at_home(name, release, content)
    listed = DOMAINS if release != "list126" else ("clipart", "painting", "real", "sketch")
    lists = official(tmp_path / "lists", content, listed) if facts.listed_only else None
    raw = fetch(workspace, name, release, lists=lists, say=lambda _: None)
    assert (
        len(server.asked) == 2 and server.asked[1] is not None
    )  # the connection broke once and the rest was asked for
    if facts.counts or facts.complete:
        with pytest.raises(FedshiftError, match="is not what was published"):
            verify(workspace, name, release)
    write_manifest(workspace, name, release, accept=True)
    verify(workspace, name, release)

    folder = prepare(workspace, name, release, jobs=1)
    index = load_index(folder)
    dataset = get("datasets", name)
    expected = len([path for path in content if path.endswith((".jpg", ".JPG")) and "/full/" not in path])
    if name in ("domainnet10", "mini_domainnet"):
        taken = (
            TEN
            if release != "list126"
            else [label for k, label in enumerate(CLASSES) if k % 6 in (0, 2, 4, 5) or label in TEN]
        )
        expected = len([path for path in content if path.split("/")[-2] in taken])
    assert len(index) == expected - (len(listed) if lists else 0)
    assert set(index["split"]) == words and list(dict.fromkeys(index["domain"])) == list(dataset.domains)
    assert [path.name for path in raw.parent.iterdir() if path.name.startswith(".")] == []

    official_split = (
        {"split": "official"} if words >= {"train"} and "" not in words and "test" not in words else {}
    )
    value = {
        "data": {"dataset": name, "release": release, "target": dataset.domains[0]},
        "partition": {"fractions": [0.5, 0.25, 0.25], **official_split},
        "model": {"name": "digits_cnn"}, "method": {"name": "fedavg"}, "local": {"batch": 4, "lr": 0.1}, "federation": {"rounds": 1},
    }  # fmt: skip
    spec = resolve(parse(value, "test"))
    table = load_partition(partition(workspace, spec), index)
    assert set(table["client"]) == {-1, *range(len(dataset.domains) - 1)}
    federation, hashes, classes_ = assemble(workspace, spec, torch.device("cpu"))
    assert len(federation.clients) == len(dataset.domains) - 1 and set(hashes) == {"prepared", "partition"}
    assert len(classes_) == len(dataset().domains_and_classes(raw)[1])


def test_vlcs_keeps_files_of_one_name_apart_and_their_split(
    workspace: Workspace, at_home: Callable[[str, str, Members], Release]
) -> None:
    content = vlcs_dassl()
    at_home("vlcs", "original", content)
    raw = fetch(workspace, "vlcs", say=lambda _: None)
    dataset = get("datasets", "vlcs")()
    index = dataset.index(raw).set_index("path")
    assert (
        index.loc["sun/dog/test/imgs_1.jpg", "split"] == "test"
        and index.loc["sun/dog/train/imgs_1.jpg", "split"] == "train"
    )
    assert dataset.content(raw, "sun/dog/test/imgs_1.jpg") == content["VLCS/SUN/test/3/imgs_1.jpg"]
    assert Counter(index["split"]) == {"train": 40, "crossval": 20, "test": 20}


def test_domainnets_classes_are_numbered_as_in_the_official_lists() -> None:
    numbered = {
        "bird": 32,
        "headphones": 141,
        "tiger": 312,
        "whale": 337,
        "wine_glass": 341,
        "zebra": 344,
    }  # in file names, from 1
    assert {name: CLASSES.index(name) + 1 for name in numbered} == numbered
    assert len(CLASSES) == 345 == len(set(CLASSES)) and set(TEN) < set(CLASSES)
    assert (
        list(CLASSES) == sorted(CLASSES, key=lambda name: name.upper().replace("-", ""))
        or CLASSES[-1] == "zigzag"
    )


@pytest.mark.parametrize(
    ("file", "counts"),
    [
        ("pacs_kfold", {"train": 8977, "crossval": 1014}),
        ("domainnet10_fedbn", {"train": 18278, "test": 4573}),
        ("office_home", {"": 15588}),
    ],
)
def test_official_lists_hold_the_published_numbers(file: str, counts: dict[str, int]) -> None:
    assert Counter(read_lists(REFERENCE / f"{file}.csv.gz").values()) == counts


@pytest.mark.parametrize("name", ["office_home", "domainnet10"])
def test_lists_and_declared_counts_agree(name: str) -> None:
    facts = next(facts for facts in get("datasets", name).releases.values() if facts.lists)
    found = Counter(path.split("/")[0] for path in read_lists(REFERENCE / str(facts.lists)))
    assert facts.counts == found


def test_lists_of_the_user_are_asked_for_by_name(workspace: Workspace, tmp_path: Path) -> None:
    for path, content in spread().items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(content)
    with pytest.raises(FedshiftError, match="must be given") as error:
        fetch(workspace, "domainnet", "cleaned", tmp_path, say=lambda _: None)
    assert "<domain>_train.txt" in error.value.cure and "--lists FOLDER" in error.value.cure
    assert not workspace.raw("domainnet", "cleaned").exists()


def test_listed_images_that_are_not_there_are_named(workspace: Workspace, tmp_path: Path) -> None:
    content = spread()
    lists = official(tmp_path / "lists", content, DOMAINS)
    gone = next(
        line for line in (lists / "real_train.txt").read_text().splitlines() if "/zebra/" in line
    ).split()[0]
    for path, picture_ in content.items():
        if path != gone:
            (tmp_path / "tree" / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "tree" / path).write_bytes(picture_)
    with pytest.raises(FedshiftError, match=f"listed and not there: {gone}"):
        fetch(workspace, "domainnet10", "original", tmp_path / "tree", lists, say=lambda _: None)


def test_mini_domainnet_takes_the_classes_of_its_list(workspace: Workspace, tmp_path: Path) -> None:
    content = spread()
    for path, picture_ in content.items():
        (tmp_path / "tree" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "tree" / path).write_bytes(picture_)
    (tmp_path / "lists").mkdir()
    clips = [path for path in content if path.startswith("clipart/")]
    (tmp_path / "lists" / "clipart_train.txt").write_text("".join(f"{path} 0\n" for path in clips))
    raw = fetch(
        workspace, "mini_domainnet", "list126", tmp_path / "tree", tmp_path / "lists", say=lambda _: None
    )
    _, classes = MiniDomainNet().domains_and_classes(raw)
    named = {path.split("/")[1] for path in clips}
    assert classes == tuple(name for name in DomainNet.classes if name in named)
    index = MiniDomainNet().index(raw)
    assert set(index.loc[index["domain"] == "clipart", "split"]) == {"train"}
    assert set(index.loc[index["domain"] == "quickdraw", "split"]) == {""}


@pytest.mark.parametrize("name", names("datasets"))
def test_every_release_says_where_it_comes_from_and_on_what_terms(name: str, workspace: Workspace) -> None:
    dataset = get("datasets", name)
    for release, facts in dataset.releases.items():
        assert facts.source and facts.licence and facts.citation
        assert all(archive.stated and archive.url.startswith("http") for archive in facts.archives)
        assert set(facts.counts or dataset.domains) == set(dataset.domains)
        if (facts.listed_only and not facts.lists) or not (facts.archives or dataset.embedded):
            with pytest.raises(FedshiftError) as error:
                fetch(workspace, name, release, say=lambda _: None)
            assert all(address in error.value.cure for address in facts.by_hand)
