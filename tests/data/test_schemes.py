"""Partition schemes: sizes worked out by hand, and what holds for every draw."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from fedshift.common.errors import FedshiftError
from fedshift.common.formats import columns_hash
from fedshift.data.plots import plot_partition
from tests.data.divisions import SCHEMES, SMALL, division, held
from tests.data.test_partition import PACS, make_index


@settings(deadline=None, max_examples=15)
@given(
    seed=st.integers(0, 10**6), scheme=st.sampled_from(sorted(SCHEMES)), target=st.sampled_from(["D", None])
)
def test_every_sample_has_one_place(seed: int, scheme: str, target: str | None) -> None:
    params = SCHEMES[scheme]
    if scheme == "clients_per_domain" and target is None:
        params = {"clients": 8}
    table = division(SMALL, scheme, params, target=target, seed=seed)
    assert table["sample"].tolist() == list(range(248))
    assert ((table["client"] < 0) == (table["domain"] == target)).all()
    assert set(table["split"]) == {"train", "val", "test"} | ({"target"} if target else set())
    assert (table["split"] == "target").sum() == (90 if target else 0)


def test_several_clients_per_domain_as_in_stablefdg() -> None:
    """PACS without photo, 30 clients: 10 a domain, floor(n / 10) each, the last one takes the rest."""
    table = division(PACS, "clients_per_domain", {"clients": 30}, target="photo")
    counts = held(table).tolist()
    assert counts[:10] == [204] * 9 + [212]
    assert counts[10:20] == [234] * 9 + [238]
    assert counts[20:] == [392] * 9 + [401]
    assert (table[table["client"] >= 0].groupby("client")["domain"].nunique() == 1).all()


@settings(deadline=None, max_examples=10)
@given(seed=st.integers(0, 10**6))
def test_dirichlet_gives_everyone_the_minimum(seed: int) -> None:
    table = division(PACS, "dirichlet", {"clients": 30, "min_size": 70}, target="photo", seed=seed)
    counts = held(table)
    assert len(counts) == 30
    assert counts.min() >= 70
    assert counts.sum() == 2048 + 2344 + 3929


@pytest.mark.parametrize("alpha", [1e-3, 1e-5, 1e-300])
def test_dirichlet_by_vanishing_proportions_is_refused(alpha: float) -> None:
    with pytest.raises(FedshiftError, match=r"no draw of 1000 gave .*\n.*raise alpha"):
        division(SMALL, "dirichlet", {"clients": 5, "alpha": alpha, "min_size": 2}, target="D")


@pytest.mark.parametrize(
    ("scheme", "params"),
    [
        ("clients_per_domain", {"clients": 10_002}),
        ("domains_per_client", {"clients": 10_000, "d": 2}),
    ],
)
def test_ten_thousand_clients_take_seconds(scheme: str, params: dict[str, Any], tmp_path: Path) -> None:
    """By a look at all samples for each client it took minutes; a picture of each took as long."""
    began = time.process_time()
    table = division(dict.fromkeys("ABCD", 50000), scheme, params, target="D")
    plot_partition(table, tmp_path / "picture.png")
    assert time.process_time() - began < 40
    assert held(table).size == params["clients"] and held(table).min() >= 2
    assert Image.open(tmp_path / "picture.png").size[0] <= 1680


def test_no_domain_is_left() -> None:
    with pytest.raises(FedshiftError, match="no source domain is left"):
        division({"D": 40}, "clients_per_domain", {"clients": 2}, target="D")


def test_dirichlet_is_uneven_and_follows_alpha() -> None:
    shares = {}
    for alpha in (0.1, 100.0):
        table = division(PACS, "dirichlet", {"clients": 6, "min_size": 1, "alpha": alpha}, target="photo")
        own = table[table["client"] >= 0]
        cells = pd.crosstab(own["client"], own["domain"], normalize="columns")
        shares[alpha] = np.abs(cells.to_numpy() - 1 / 6).max()
    assert shares[100.0] < 0.06
    assert shares[0.1] > 0.3


@pytest.mark.parametrize(
    ("params", "message"),
    [
        (
            {"clients": 30, "min_size": 300},
            "30 clients of 300 samples need 9000, the source domains hold 8321",
        ),
        ({"clients": 30, "min_size": 277}, "no draw of 1000 gave each of 30 clients 277 samples"),
    ],
)
def test_a_minimum_that_cannot_be_met_is_refused(params: dict[str, Any], message: str) -> None:
    with pytest.raises(FedshiftError, match=re.escape(message)):
        division(PACS, "dirichlet", params, target="photo")


def test_official_lists_and_the_targets_test_list() -> None:
    index = make_index({"A": 40, "B": 30})
    index["split"] = ["train", "train", "crossval", "test"] * 17 + ["train", "test"]
    table = division(
        {}, "domain_per_client", {}, target="B", index=index, split="official", target_split="test"
    )
    own = table[table["domain"] == "A"]
    assert own["split"].value_counts().to_dict() == {"train": 20, "val": 10, "test": 10}
    other = table[table["domain"] == "B"]
    assert (other["split"] == "target").tolist() == (index["split"][40:] == "test").tolist()
    assert set(other["split"]) == {"target", "unused"}
    index["split"] = ""
    with pytest.raises(FedshiftError, match="no official split"):
        division({}, "domain_per_client", {}, index=index, split="official")


@pytest.mark.parametrize(
    ("scheme", "expected"),
    [
        ("clients_per_domain", "8f67e3ca0e140fb4"),
        ("dirichlet", "fd4deb23d73ac5c6"),
    ],
)
def test_same_seed_same_columns_on_every_machine(scheme: str, expected: str) -> None:
    table = division(SMALL, scheme, SCHEMES[scheme], target="D", seed=15)
    assert columns_hash(table)[:16] == expected
