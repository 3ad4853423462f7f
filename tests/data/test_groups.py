"""A patient's images are never in training and test: by a pattern in file names, or by a CSV file."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fedshift.common.errors import FedshiftError
from fedshift.data.groups import grouped, hashed
from fedshift.data.partition import divide
from fedshift.spec.block import closed
from fedshift.spec.settings import Division, Groups

PATTERN = r"(P[0-9]+)_"


def index() -> pd.DataFrame:
    """Twelve patients with nine images each: most of one hospital, P10 and P11 of two, P11 of the held-out one, too."""
    rows = []
    for patient in range(12):
        hospitals = {10: ["a", "b"], 11: ["a", "c"]}.get(patient, ["abc"[patient % 3]])
        for scan in range(9):
            hospital = hospitals[scan % len(hospitals)]
            rows.append((hospital, "ill" if scan % 2 else "well", f"P{patient:02d}_{scan}.png"))
    rows.sort()
    table = pd.DataFrame(rows, columns=["domain", "class", "file"])
    path = table["domain"] + "/" + table["class"] + "/" + table["file"]
    return table.assign(
        path=path, sample=range(len(table)), label=(table["class"] == "well").astype("int16"), split="",
        group=np.int32(-1),
    )  # fmt: skip


def division(groups: Any, seed: int = 0) -> Any:
    partition = {"groups": groups, "fractions": [0.5, 0.25, 0.25]}
    data = {"dataset": "folder", "release": "clinics", "target": "c"}
    return closed(Division, {"data": data, "partition": partition, "seed": seed}, "here")


@pytest.mark.parametrize("seed", range(20))
def test_no_patient_is_on_two_sides(seed: int) -> None:
    table = index()
    apart = divide(table, division("apart", seed))
    made = divide(grouped(table, Groups(pattern=PATTERN), Path()), division({"pattern": PATTERN}, seed))
    patients = table["file"].str[:3]
    sides = made["split"].where(made["split"] != "unused").groupby(patients).nunique()
    assert (sides <= 1).all()
    assert (apart["split"].groupby(patients).nunique() > 1).any()
    assert (made.loc[patients == "P11", "client"] == -1).all()  # tested in the held-out hospital
    assert {*made.loc[made["client"] >= 0, "split"]} == {"train", "val", "test"}
    assert (made.loc[table["domain"] == "c", "split"] == "target").all()


def test_copies_join_groups_and_the_file_says_the_same(tmp_path: Path) -> None:
    table = index()
    copies = table["group"].to_numpy().copy()
    one, other = table.index[table["file"] == "P00_0.png"][0], table.index[table["file"] == "P01_0.png"][0]
    copies[[one, other]] = 0
    table["group"] = copies
    by_pattern = grouped(table, Groups(pattern=PATTERN), tmp_path)["group"]
    numbers = by_pattern.groupby(table["file"].str[:3]).unique()
    assert all(len(of) == 1 for of in numbers)
    assert numbers["P00"][0] == numbers["P01"][0] and by_pattern.nunique() == 11
    listed = "path,group\n" + "".join(f"{file},{file[:3]}\n" for file in table["file"])
    (tmp_path / "patients.csv").write_text(listed)
    known = hashed(Groups(file="patients.csv"), tmp_path)
    pd.testing.assert_series_equal(grouped(table, known, tmp_path)["group"], by_pattern)
    (tmp_path / "patients.csv").write_text(listed.replace("P00\n", "P05\n"))
    with pytest.raises(FedshiftError, match="has changed since this run was declared"):
        grouped(table, known, tmp_path)
    names = {
        division(one.model_dump()).partition_name
        for one in (known, hashed(Groups(file="patients.csv"), tmp_path))
    }
    assert len(names) == 2  # another content, another partition


@pytest.mark.parametrize(
    ("groups", "text", "said"),
    [
        (Groups(pattern="(Q[0-9]+)_"), "", "matches the name of no image; without a match: a/"),
        (Groups(pattern="(P0[0-4])?_"), "", "matches the name of all images but"),
        (Groups(file="list.csv"), "path;group\n", "has no columns path and group"),
        (Groups(file="list.csv"), "path,group\nP00_0.png,P00\n", "names no group of 107 images"),
        (
            Groups(file="list.csv"),
            "path,group\n001.png,P1\n001.png,P7\n",
            "names two groups of '001.png': P1 and P7",
        ),
        (Groups(file="absent.csv"), "", "there is no file"),
    ],
)
def test_images_without_a_group_are_named(groups: Groups, text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "list.csv").write_text(text)
    with pytest.raises(FedshiftError, match=said):
        grouped(index(), hashed(groups, tmp_path), tmp_path)


@pytest.mark.parametrize(
    ("groups", "said"),
    [({"pattern": "("}, "not a regular expression"), ({}, "give `pattern` or `file`"), ("alone", "groups")],
)
def test_groups_that_are_none(groups: Any, said: str) -> None:
    with pytest.raises(FedshiftError, match=said):
        division(groups)
