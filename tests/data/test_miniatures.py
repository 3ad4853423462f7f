"""Every data set: a miniature in each accepted raw layout goes from a web server to a trained model."""

import io
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

from fedshift.common.errors import FedshiftError
from fedshift.common.registry import get
from fedshift.data.dataset import Archive, Dataset
from fedshift.data.datasets.domainnet import CLASSES, DOMAINS
from fedshift.data.datasets.domainnet10 import TEN
from fedshift.data.datasets.vlcs import VLCS
from fedshift.data.fetch import fetch
from fedshift.data.partition import load_partition, partition
from fedshift.data.prepare import load_index, prepare
from fedshift.data.verify import verify, write_manifest
from fedshift.spec import RunSpec
from fedshift.spec.resolve import resolve
from fedshift.spec.settings import Prepare
from fedshift.storage.workspace import Workspace
from fedshift.testing.toys import spec
from fedshift.training.run import Machine, train
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


def at(name: str, place: Callable[[str, str, int], str], each: int = 4) -> Callable[[], Members]:
    return lambda: members(get("datasets", name), place, each)


def vlcs_dassl() -> Members:
    found = members(
        VLCS, lambda d, label, k: f"VLCS/{d.upper()}/{WORDS[k]}/{VLCS.classes.index(label)}/imgs_{k % 2}.jpg"
    )
    whole = {f"VLCS/CALTECH/full/0/{k}.jpg": content for k, content in enumerate(list(found.values())[:4])}
    return {**found, **whole, "VLCS/readme.txt": b""}


# What others call domains.
DOMAINBED = {"caltech": "Caltech101", "labelme": "LabelMe", "pascal": "VOC2007", "sun": "SUN09"}
AUTHORS = {"art": "Art", "clipart": "Clipart", "product": "Product", "real_world": "Real World"}
PACS = {
    "repository": at("pacs", lambda d, label, k: f"Homework3-PACS-d586/PACS/{d}/{label}/pic_{k}.jpg"),
    "dassl": at("pacs", lambda d, label, k: f"pacs/images/{d}/{label}/pic_{k}.jpg"),
    "domainbed": at("pacs", lambda d, label, k: f"kfold/{d}/{label}/pic_{k}.jpg"),
}
VLCS_DOMAINBED = at("vlcs", lambda d, label, k: f"VLCS/{DOMAINBED[d]}/{label}/{k}.jpg")
OFFICE_HOME = {
    "authors": at("office_home", lambda d, label, k: f"OfficeHomeDataset_10072016/{AUTHORS[d]}/{label}/{k:05d}.jpg", 3),
    "dassl": at("office_home", lambda d, label, k: f"office_home_dg/{d}/{('train', 'train', 'val')[k]}/{label.lower()}/{k}.jpg", 3),
}  # fmt: skip
OFFICE = {
    "repository": at("office_caltech10", lambda d, label, k: f"Office-91ad/{d.replace('caltech', 'Caltech')}/{label.replace('backpack', 'back_pack')}/{k}.jpg"),
    "images": at("office_caltech10", lambda d, label, k: f"{d}/images/{label.removesuffix('_computer')}/{k}.JPG"),
}  # fmt: skip
DIGITS_DG = at("digits_dg", lambda d, label, k: f"digits_dg/{d}/{('train', 'train', 'train', 'val')[k]}/{label}/{k}.jpg")  # fmt: skip


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
    "pacs-repository": Layout("pacs", "original", PACS["repository"], 112),
    "pacs-dassl": Layout("pacs", "original", lambda: {**PACS["dassl"](), "pacs/splits/a.txt": b""}, 112),
    "pacs-domainbed": Layout("pacs", "original", PACS["domainbed"], 112),
    "vlcs-dassl": Layout("vlcs", "original", vlcs_dassl, 80, frozenset(WORDS)),
    "vlcs-domainbed": Layout("vlcs", "domainbed", VLCS_DOMAINBED, 80),
    "office_home-authors": Layout("office_home", "original", OFFICE_HOME["authors"], 780),
    "office_home-dassl": Layout("office_home", "dassl", OFFICE_HOME["dassl"], 780, FOLDERS),
    "office_caltech10-repository": Layout("office_caltech10", "original", OFFICE["repository"], 160),
    "office_caltech10-images": Layout("office_caltech10", "original", OFFICE["images"], 160),
    "digits_dg": Layout("digits_dg", "original", DIGITS_DG, 160, FOLDERS),
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


PX = Prepare(px=16)


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_from_the_server_to_a_trained_model(
    layout: Layout, workspace: Workspace, tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    content, dataset = layout.build(), get("datasets", layout.name)
    serve(layout, content, server, monkeypatch)
    lists = official(tmp_path / "lists", content, layout.listed) if layout.listed else None
    raw = fetch(workspace, layout.name, layout.release, lists=lists, say=lambda _: None)
    assert not [path for path in raw.parent.iterdir() if path.name.startswith(".")]
    facts = dataset.releases[layout.release]
    if facts.counts or facts.complete:
        with pytest.raises(FedshiftError, match="is not what was published"):
            verify(workspace, layout.name, layout.release)
    write_manifest(workspace, layout.name, layout.release, accept=True)
    verify(workspace, layout.name, layout.release)

    index = load_index(prepare(workspace, layout.name, layout.release, PX, jobs=1))
    assert len(index) == layout.images
    assert set(index["split"]) == layout.words
    assert tuple(index["domain"].unique()) == dataset.domains

    target, *sources = dataset.domains
    spec = spec_of(layout, target)
    table, _ = load_partition(partition(workspace, spec), index)
    assert set(table["client"]) == {-1, *range(len(sources))}
    summary = train(workspace, spec, Machine(torch.device("cpu")))
    assert [client["domains"] for client in summary["clients"]] == [[domain] for domain in sources]
    assert tuple(summary["classes"]) == dataset().domains_and_classes(raw)[1]
    assert set(summary["hashes"]) >= {"prepared", "partition", "weights_last"}
    metrics = metrics_of(workspace, spec)
    assert set(metrics["round"]) == {0, 1}
    assert np.isfinite(metrics["value"]).all()
    assert len(metrics.query("stage == 'train' and metric == 'loss'")) == len(sources)
    assert set(metrics.query("split == 'target'")["n"]) == {(index["domain"] == target).sum()}


def serve(layout: Layout, content: Members, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put an archive where the release looks for it; the project has no manifest for that."""
    server.content = zipped(content)
    dataset = get("datasets", layout.name)
    here = {"archives": (Archive(server.url, "this test"),), "manifest": None}
    facts = replace(dataset.releases[layout.release], **here)
    monkeypatch.setattr(dataset, "releases", {**dataset.releases, layout.release: facts})


def spec_of(layout: Layout, target: str) -> RunSpec:
    """One round of FedAvg, by the official split where every image has one."""
    split = "random" if "" in layout.words else "official"
    data = {"dataset": layout.name, "release": layout.release, "target": target}
    data |= {"prepare": {"px": PX.px}, "input_px": PX.px}
    partition = {"fractions": [0.5, 0.25, 0.25], "split": split}
    return resolve(spec(data=data, partition=partition, local={"batch": 32}, federation={"rounds": 1}))


def metrics_of(workspace: Workspace, spec: RunSpec) -> pd.DataFrame:
    return pd.read_parquet(workspace.run(spec.run_name).path / "metrics.parquet")
