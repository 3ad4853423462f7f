"""PACS and Office-Caltech10 as they are: manifests, counts, duplicates and the partitions' sizes."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fedshift.data.datasets.office_caltech10 import OfficeCaltech10
from fedshift.data.datasets.pacs import PACS
from fedshift.data.fetch import fetch
from fedshift.data.partition import divide
from fedshift.data.prepare import load_prepared
from fedshift.data.verify import stamp_path, verify
from fedshift.storage.workspace import Workspace
from tests.data.test_partition import make_spec
from tests.verbs import done, fedshift


@pytest.fixture
def office(shared: Path) -> Path:
    return shared / "data" / "office_caltech10"


@pytest.mark.slow
def test_pacs_matches_its_manifest_and_fdse_sizes(workspace: Workspace, shared: Path) -> None:
    fetch(workspace, "pacs", source=shared / "data" / "pacs", say=lambda _: None)
    verify(workspace, "pacs")
    index = PACS().index(shared / "data" / "pacs")
    counts = index.groupby(["domain", "class"], sort=False).size().unstack()
    assert counts.loc["sketch"].tolist() == [772, 740, 753, 608, 816, 80, 160]
    assert index.groupby("domain", sort=False).size().tolist() == [2048, 2344, 1670, 3929]
    assert (index["group"] == -1).all()
    index.insert(0, "sample", range(len(index)))
    trained = divide(index, make_spec(dataset="pacs")).query("split == 'train'").groupby("client").size()
    assert trained.tolist() == [1639, 1876, 1336, 3144]
    assert index.groupby(["split", "domain"]).size().to_dict() == {
        ("crossval", "art_painting"): 208, ("crossval", "cartoon"): 237, ("crossval", "photo"): 171, ("crossval", "sketch"): 398,
        ("train", "art_painting"): 1840, ("train", "cartoon"): 2107, ("train", "photo"): 1499, ("train", "sketch"): 3531,
    }  # fmt: skip


def test_office_caltech10_counts_duplicates_and_grey_images(office: Path) -> None:
    index = OfficeCaltech10().index(office)
    assert index.groupby("domain", sort=False).size().to_dict() == {
        "caltech": 1123, "amazon": 958, "dslr": 157, "webcam": 295,
    }  # fmt: skip
    groups = index[index["group"] >= 0]
    assert groups["group"].nunique() == 18 and len(groups) - 18 == 26
    surplus = groups.groupby("domain").size() - groups.groupby("domain")["group"].nunique()
    assert surplus.to_dict() == {"amazon": 25, "caltech": 1}
    grey = np.asarray(OfficeCaltech10().image(office, "caltech/headphones/101_0069.jpg"))
    assert grey.ndim == 3 and (grey[..., 0] == grey[..., 2]).all()


@pytest.mark.slow
def test_office_caltech10_is_prepared_and_divided_as_fdse_does(workspace: Workspace, office: Path) -> None:
    """One command for each step, and none does its work twice."""
    workspace.root.mkdir()
    name = "office_caltech10"
    fetched = done(fedshift(workspace.root, "fetch", name, "--from", str(office)))
    assert workspace.raw(name, "original").resolve() == office.resolve() and "licence: none stated" in fetched
    told = done(fedshift(workspace.root, "verify", name))
    assert "2,533 files, 55,275,304 bytes" in told and "18 groups, 26 surplus" in told
    stamped = stamp_path(workspace, name, "original").stat().st_mtime_ns
    folder = Path(done(fedshift(workspace.root, "prepare", name, "--px", "8")).splitlines()[-1])
    assert stamp_path(workspace, name, "original").stat().st_mtime_ns == stamped
    before = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert f"present: {workspace.raw(name, 'original')}" in done(fedshift(workspace.root, "fetch", name))
    assert done(fedshift(workspace.root, "prepare", name, "--px", "8")).strip() == str(folder)
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == before
    content = load_prepared(folder)
    images, index = content.pixels, content.index
    assert images.shape == (2533, 8, 8, 3) and images.std() > 30
    counts = pd.crosstab(
        *(divide(index, make_spec(dataset="office_caltech10"))[name] for name in ("client", "split"))
    )
    assert counts["train"].sum() == 2028
    assert counts.loc[2, ["train", "val", "test"]].tolist() == [126, 16, 15]
    assert (trained_and_seen(index, "apart"), trained_and_seen(index, "together")) == ((2028, 3), (2028, 0))


def trained_and_seen(index: pd.DataFrame, groups: str) -> tuple[int, int]:
    """Training images, and test images that are byte-identical with one of them, by FDSE's first seed."""
    spec = make_spec(dataset="office_caltech10", seed=2)
    division = spec.partition.model_copy(update={"groups": groups})
    split = divide(index, spec.model_copy(update={"partition": division}))["split"]
    known = set(index.loc[split == "train", "group"]) - {-1}
    return int((split == "train").sum()), int(index.loc[split == "test", "group"].isin(known).sum())
