"""Every data set: what it takes from a raw tree, its classes and lists, and the pixels of the embedded digits."""

import hashlib
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from fedshift.common.errors import FedshiftError
from fedshift.common.registry import get, names
from fedshift.data.datasets.digits import Digits
from fedshift.data.datasets.domainnet import CLASSES, DomainNet
from fedshift.data.datasets.domainnet10 import TEN
from fedshift.data.datasets.mini_domainnet import MiniDomainNet
from fedshift.data.datasets.vlcs import VLCS
from fedshift.data.fetch import fetch
from fedshift.data.lists import REFERENCE, read_lists
from fedshift.storage.workspace import Workspace
from tests.data.test_miniatures import Members, spread, vlcs_dassl


def written(root: Path, content: Members) -> Path:
    """A tree of these files."""
    for path, image in content.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(image)
    return root


def test_vlcs_keeps_files_of_one_name_apart_and_their_split(workspace: Workspace, tmp_path: Path) -> None:
    content = vlcs_dassl()
    raw = fetch(workspace, "vlcs", source=written(tmp_path, content), say=lambda _: None)
    index = VLCS().index(raw).set_index("path")
    for word in ("test", "train"):
        assert index.loc[f"sun/dog/{word}/imgs_1.jpg", "split"] == word
        assert VLCS().content(raw, f"sun/dog/{word}/imgs_1.jpg") == content[f"VLCS/SUN/{word}/3/imgs_1.jpg"]
    assert Counter(index["split"]) == {"train": 40, "crossval": 20, "test": 20}


def test_domainnets_classes_are_numbered_as_in_the_official_lists() -> None:
    from_1 = {"bird": 32, "headphones": 141, "tiger": 312, "whale": 337, "wine_glass": 341, "zebra": 344}
    assert {name: CLASSES.index(name) + 1 for name in from_1} == from_1
    assert len(CLASSES) == 345 == len(set(CLASSES)) and set(TEN) < set(CLASSES)
    assert list(CLASSES) == sorted(CLASSES, key=lambda name: name.lower().replace("-", "").replace("_", ""))


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


def test_mini_domainnet_takes_the_classes_of_its_list(workspace: Workspace, tmp_path: Path) -> None:
    content = spread()
    tree = written(tmp_path / "tree", content)
    (tmp_path / "lists").mkdir()
    clips = [path for path in content if path.startswith("clipart/")]
    labels = sorted({path.split("/")[1] for path in clips})
    lines = [f"{path} {labels.index(path.split('/')[1])}\n" for path in clips]
    (tmp_path / "lists" / "clipart_train.txt").write_text("".join(lines))
    raw = fetch(workspace, "mini_domainnet", "list126", tree, tmp_path / "lists", say=lambda _: None)
    _, classes = MiniDomainNet().domains_and_classes(raw)
    named = {path.split("/")[1] for path in clips}
    assert classes == tuple(name for name in DomainNet.classes if name in named)
    index = MiniDomainNet().index(raw)
    assert set(index.loc[index["domain"] == "clipart", "split"]) == {"train"}
    assert set(index.loc[index["domain"] == "quickdraw", "split"]) == {""}


NOWHERE = Path("no raw tree")


def test_every_image_is_in_exactly_one_domain_and_classes_are_balanced() -> None:
    index = Digits().index(NOWHERE)
    assert len(index) == 1797
    assert index["path"].str.rpartition("/")[2].nunique() == 1797
    assert index.groupby("domain", sort=False).size().to_dict() == {
        "plain": 454, "ink": 451, "texture": 447, "outline": 445,
    }  # fmt: skip
    cells = index.groupby(["class", "domain"]).size().unstack()
    assert (cells.max(axis=1) - cells.min(axis=1)).max() == 1


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("plain/3/0003", "3b1e124187ccf6ea"),
        ("ink/3/0013", "a6d9bf13811849ae"),
        ("texture/3/0023", "edb757ab45d399c7"),
        ("outline/3/0045", "ec3dc02e67b0d260"),
    ],
)
def test_pixels_are_the_same_on_every_machine(path: str, content: str) -> None:
    assert path in Digits().paths(NOWHERE)
    pixels = np.asarray(Digits().image(NOWHERE, path))
    assert pixels.shape == (32, 32, 3)
    assert hashlib.sha256(pixels.tobytes()).hexdigest()[:16] == content


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
