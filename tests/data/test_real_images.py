"""PACS and Office-Caltech10 as they are: manifests, counts, duplicates and the partitions' sizes."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from PIL import Image

from fedshift.data.datasets.office_caltech10 import OfficeCaltech10
from fedshift.data.datasets.pacs import PACS
from fedshift.data.fetch import fetch
from fedshift.data.partition import divide
from fedshift.data.prepare import load, prepare
from fedshift.data.verify import verify
from fedshift.spec import Prepare
from fedshift.workspace import Workspace
from tests.conftest import ROOT
from tests.data.test_partition import make_spec


@pytest.fixture
def office(shared: Path) -> Path:
    return shared / "data" / "office_caltech10"


def test_pacs_matches_its_manifest_and_fdse_sizes(workspace: Workspace, shared: Path) -> None:
    fetch(workspace, "pacs", source=shared / "data" / "pacs", say=lambda _: None)
    verify(workspace, "pacs")
    index = PACS().index(shared / "data" / "pacs")
    counts = index.groupby(["domain", "class"], sort=False).size().unstack()
    assert counts.loc["sketch"].tolist() == [772, 740, 753, 608, 816, 80, 160]
    assert index.groupby("domain", sort=False).size().tolist() == [2048, 2344, 1670, 3929]
    assert (index["group"] == -1).all()
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


def test_the_one_rotated_image_is_turned_upright(office: Path) -> None:
    path = "caltech/mug/041_0006.jpg"
    with Image.open(office / path) as stored:
        assert stored.getexif()[0x0112] == 8  # lies on its side: turn it by 90 degrees against the clock
        expected = np.rot90(np.asarray(stored.convert("RGB")))
    np.testing.assert_array_equal(np.asarray(OfficeCaltech10().image(office, path)), expected)


def test_office_caltech10_is_prepared_and_divided_as_fdse_does(workspace: Workspace, office: Path) -> None:
    fetch(workspace, "office_caltech10", source=office, say=lambda _: None)
    told = json.loads(verify(workspace, "office_caltech10").read_text())["duplicates"]
    assert (told["groups"], told["surplus"]) == (18, 26)
    images, index = load(prepare(workspace, "office_caltech10", options=Prepare(px=8)))
    assert images.shape == (2533, 8, 8, 3) and images.std() > 30
    counts = pd.crosstab(
        *(divide(index, make_spec(dataset="office_caltech10"))[name] for name in ("client", "split"))
    )
    assert counts["train"].sum() == 2028
    assert counts.loc[2, ["train", "val", "test"]].tolist() == [126, 16, 15]


@pytest.mark.parametrize("name", ["pacs", "office_caltech10"])
def test_dvc_pointers_name_the_real_files(name: str, shared: Path) -> None:
    root = shared / "data" / name
    files = sorted(path for path in root.rglob("*") if path.is_file())
    listed = [
        {"md5": hashlib.md5(path.read_bytes()).hexdigest(), "relpath": path.relative_to(root).as_posix()}
        for path in files
    ]
    listed.sort(key=lambda file: file["relpath"])  # as DVC writes a folder's .dir file
    (pointer,) = yaml.safe_load((ROOT / "data" / "raw" / name / "original.dvc").read_text())["outs"]
    assert pointer["md5"] == f"{hashlib.md5(json.dumps(listed, sort_keys=True).encode()).hexdigest()}.dir"
    assert (pointer["nfiles"], pointer["size"]) == (len(files), sum(path.stat().st_size for path in files))
