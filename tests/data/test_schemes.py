"""Partition schemes and modifiers: sizes worked out by hand, and what holds for every draw."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from fedshift.data.columns import columns_hash
from fedshift.data.partition import divide
from fedshift.data.partitions.heterogeneous import owners
from fedshift.data.plots import plot_partition
from fedshift.data.scheme import generator, permutation, uniform
from fedshift.data.split import random_split
from fedshift.errors import FedshiftError
from tests.data.test_partition import OFFICE, PACS, make_index, make_spec

SMALL = {"A": 61, "B": 47, "C": 50, "D": 90}
SCHEMES: dict[str, dict[str, Any]] = {
    "domain_per_client": {},
    "domains_per_client": {"d": 2},
    "clients_per_domain": {"clients": 6},
    "dirichlet": {"clients": 5, "min_size": 6},
    "heterogeneous": {"clients": 5, "lam": 0.3},
}


def division(sizes: dict[str, int], scheme: str, params: dict[str, Any], **blocks: Any) -> pd.DataFrame:
    modify = blocks.pop("modify", {})
    more: dict[str, Any] = {
        name: blocks.pop(name) for name in ("split", "groups", "target_split") if name in blocks
    }
    index = blocks.pop("index", None)
    spec = make_spec(scheme, params, **blocks)
    partition = spec.partition.model_copy(update={"modify": modify, **more})
    return divide(
        make_index(sizes) if index is None else index, spec.model_copy(update={"partition": partition})
    )


def held(table: pd.DataFrame) -> pd.Series:
    return table[table["client"] >= 0].groupby("client").size()


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


def test_owners_of_domains() -> None:
    """Algorithm 1: fewer clients than domains, as many, more."""
    assert owners([10, 40, 20, 30], 2) == [[0], [0], [1], [1]]
    assert owners([10, 40, 20], 3) == [[0], [1], [2]]
    assert owners([10, 40, 25], 5) == [[0], [1, 2], [3, 4]]


@pytest.mark.parametrize("clients", [2, 3, 7])
def test_heterogeneity_between_its_limits(clients: int) -> None:
    sizes = {"A": 210, "B": 420, "C": 630}
    even = division(sizes, "heterogeneous", {"clients": clients, "lam": 1.0}, target=None)
    cells = pd.crosstab(even["client"], even["domain"])
    assert (cells.max() - cells.min()).max() <= 1
    apart = division(sizes, "heterogeneous", {"clients": clients, "lam": 0.0}, target=None)
    assert (apart.groupby("client")["domain"].nunique() == 1).all() == (clients >= 3)
    half = division(sizes, "heterogeneous", {"clients": 3, "lam": 0.5}, target=None)
    assert pd.crosstab(half["client"], half["domain"]).loc[2, "C"] == 315 + 105


def test_a_thousand_clients_and_their_picture(tmp_path: Path) -> None:
    table = division({"A": 6000, "B": 6000}, "clients_per_domain", {"clients": 1000})
    assert held(table).tolist() == [12] * 1000
    plot_partition(table, tmp_path / "plot.png")
    with Image.open(tmp_path / "plot.png") as picture:
        assert picture.size == (14 * 120, 792)


def test_label_shift_of_fedrd() -> None:
    """A tenth of the rare classes stays in training; validation and test do not change."""
    natural = division(PACS, "domain_per_client", {}, target="photo")
    shifted = division(
        PACS,
        "domain_per_client",
        {},
        target="photo",
        modify={"label_shift": {"classes": {"art_painting": [0], "sketch": [1, 2]}, "share": 0.0}},
    )
    changed = natural["split"] != shifted["split"]
    assert set(natural.loc[changed, "split"]) == {"train"}
    assert set(shifted.loc[changed, "split"]) == {"unused"}
    assert (shifted.loc[changed, "client"] == -1).all()
    for domain, rare in {"art_painting": [0], "cartoon": [], "sketch": [1, 2]}.items():
        for label in range(3):
            of = [
                (one["domain"] == domain) & (one["label"] == label) & (one["split"] == "train")
                for one in (natural, shifted)
            ]
            before, after = (int(mask.sum()) for mask in of)
            assert after == (round(0.1 * before) if label in rare else before)


def test_rare_classes_are_drawn_where_none_is_named() -> None:
    table = division(
        PACS, "domain_per_client", {}, target="photo", modify={"label_shift": {"keep": 0.0, "share": 1 / 3}}
    )
    left = table[table["split"] == "train"].groupby("client")["label"].unique()
    assert [sorted({0, 1, 2}.difference(labels)) for labels in left] == table.attrs["few_shot"]
    assert [len(labels) for labels in table.attrs["few_shot"]] == [1, 1, 1]


def test_the_table_says_which_classes_are_rare_at_which_client() -> None:
    """A client of several domains has the classes of all of them; what lost no sample is not rare."""
    classes = {"art_painting": [0], "cartoon": [2], "sketch": [1, 2]}
    shift = {"label_shift": {"classes": classes, "share": 0.0}}
    alone = division(PACS, "domain_per_client", {}, target="photo", modify=shift)
    assert alone.attrs == {"few_shot": [[0], [2], [1, 2]]}
    two = division(PACS, "domains_per_client", {"d": 2}, target="photo", modify=shift)
    domains = [two["domain"][two["client"] == k].unique() for k in range(3)]
    expected = [sorted({label for domain in held for label in classes[domain]}) for held in domains]
    assert two.attrs == {"few_shot": expected}
    assert max(map(len, domains)) == 2
    shift["label_shift"]["keep"] = 1.0
    assert division(PACS, "domain_per_client", {}, target="photo", modify=shift).attrs == {
        "few_shot": [[], [], []]
    }
    assert division(PACS, "domain_per_client", {}, target="photo").attrs == {}


@settings(deadline=None, max_examples=15)
@given(
    seed=st.integers(0, 10**6),
    scheme=st.sampled_from(sorted(SCHEMES)),
    keep=st.floats(0.5, 1),
    each=st.integers(0, 6),
    order=st.permutations(["label_shift", "few_shot_target"]),
)
def test_modifiers_leave_every_sample_one_place(
    seed: int, scheme: str, keep: float, each: int, order: list[str]
) -> None:
    given = {"label_shift": {"keep": keep, "share": 1 / 3}, "few_shot_target": {"each": each}}
    modify = {name: given[name] for name in order}
    plain, table = (
        division(SMALL, scheme, SCHEMES[scheme], target="D", seed=seed, modify=change)
        for change in ({}, modify)
    )
    assert table["sample"].tolist() == list(range(248))
    assert ((table["client"] < 0) == table["split"].isin(["target", "unused"])).all()
    clients = table["client"].max() + 1
    assert (table["split"] == "target").sum() == 90 - clients * each
    for part in ("val", "test"):
        assert ((table["split"] == part) == (plain["split"] == part)).all()
    kept = (table["client"] >= 0) & (table["domain"] != "D")
    assert (table.loc[kept, "client"] == plain.loc[kept, "client"]).all()


def test_few_target_samples_per_client() -> None:
    table = division(
        PACS, "domains_per_client", {"d": 1}, target="photo", modify={"few_shot_target": {"each": 5}}
    )
    moved = table[(table["domain"] == "photo") & (table["client"] >= 0)]
    assert moved.groupby("client").size().tolist() == [5, 5, 5]
    assert set(moved["split"]) == {"train"}
    assert (table["split"] == "target").sum() == 1670 - 15
    with pytest.raises(FedshiftError, match="leave nothing of 1670"):
        division(PACS, "domain_per_client", {}, target="photo", modify={"few_shot_target": {"each": 600}})


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


@settings(deadline=None, max_examples=50)
@given(seed=st.integers(0, 10**6), n=st.integers(20, 60), groups=st.integers(1, 5))
def test_duplicates_stay_on_one_side(seed: int, n: int, groups: int) -> None:
    group = np.full(n, -1, dtype=np.int32)
    group[: 3 * groups] = np.repeat(np.arange(groups), 3)
    group = group[permutation(generator(seed, "groups"), n)]
    split = random_split(n, (0.6, 0.2, 0.2), generator(seed, "split"), group)
    assert all(len(set(split[group == one])) == 1 for one in range(groups))
    plain = random_split(n, (0.6, 0.2, 0.2), generator(seed, "split"))
    for part in ("val", "test"):
        assert abs(int((split == part).sum()) - int((plain == part).sum())) <= 2
    none = np.full(n, -1, dtype=np.int32)
    assert (random_split(n, (0.6, 0.2, 0.2), generator(seed, "split"), none) == plain).all()


def test_uniform_numbers() -> None:
    drawn = uniform(generator(0, "test"), 10_000)
    assert 0 < drawn.min() < 0.001
    assert 0.999 < drawn.max() < 1
    assert drawn.mean() == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize(
    ("scheme", "expected"),
    [
        ("clients_per_domain", "8f67e3ca0e140fb4"),
        ("dirichlet", "fd4deb23d73ac5c6"),
        ("heterogeneous", "9c72a53257298401"),
    ],
)
def test_same_seed_same_columns_on_every_machine(scheme: str, expected: str) -> None:
    table = division(SMALL, scheme, SCHEMES[scheme], target="D", seed=15)
    assert columns_hash(table)[:16] == expected


@pytest.mark.parametrize("scheme", ["clients_per_domain", "dirichlet"])
def test_duplicates_meet_in_one_client_and_split(scheme: str) -> None:
    pairs = make_index(SMALL)
    pairs["group"] = pairs.index // 2  # of one domain each, but for two pairs

    def halves(groups: str) -> pd.Series[int]:
        table = division(SMALL, scheme, SCHEMES[scheme], index=pairs, target="D", seed=15, groups=groups)
        return table.groupby([pairs["domain"], pairs["group"]])[["client", "split"]].nunique().max()

    assert halves("apart").tolist() == [2, 2]
    assert halves("together").tolist() == [1, 1]


def test_where_nothing_is_a_duplicate_groups_change_nothing() -> None:
    together = division(OFFICE, "domain_per_client", {}, groups="together")
    assert (together["split"] == "train").sum() == 2028
    pd.testing.assert_frame_equal(together, division(OFFICE, "domain_per_client", {}))


@pytest.mark.parametrize("scheme", sorted(SCHEMES))
def test_images_without_a_duplicate_stay_with_their_clients(scheme: str) -> None:
    """Two duplicates of 61 images of A: all others are where the scheme put them."""
    index = make_index(SMALL)
    index.loc[:1, "group"] = 0
    apart, together = (
        division(SMALL, scheme, SCHEMES[scheme], index=index, target="D", groups=groups)["client"]
        for groups in ("apart", "together")
    )
    assert together[:2].nunique() == 1
    assert together[2:].equals(apart[2:])


def twinned(domains: str, each: int = 8) -> pd.DataFrame:
    """SMALL, the first `each` images of every one of these domains byte-identical to those of the others."""
    index = make_index(SMALL)
    for domain in domains:
        index.loc[np.flatnonzero(index["domain"] == domain)[:each], "group"] = np.arange(each, dtype=np.int32)
    return index


@pytest.mark.parametrize("scheme", sorted(SCHEMES))
@pytest.mark.parametrize("target_split", ["all", "client"])
def test_twins_of_tested_images_of_the_held_out_domain_go_to_no_client(
    scheme: str, target_split: str
) -> None:
    def shared(groups: str) -> tuple[set[int], pd.DataFrame]:
        options = {"index": index, "target": "D", "groups": groups, "target_split": target_split}
        table = division(SMALL, scheme, SCHEMES[scheme], **options)
        tested = set(index["group"][table["split"] == "target"]) - {-1}
        return tested & set(index["group"][table["client"] >= 0]), table

    index = twinned("ABD", each=24)
    (seen, before), (none, after) = shared("apart"), shared("together")
    assert seen and not none
    dropped = index["group"].isin(seen) & (index["domain"] != "D")
    assert (after[dropped][["client", "split"]] == [-1, "unused"]).all(axis=None)
    assert (after["split"] == "target").equals(before["split"] == "target")  # what is tested is the same
    assert (before["client"] >= 0).sum() - (after["client"] >= 0).sum() == dropped.sum()


def test_copies_of_the_targets_images_that_clients_train_on_are_not_tested_on() -> None:
    index = make_index(SMALL)
    place = np.flatnonzero(index["domain"] == "D")
    index.loc[place, "group"] = np.arange(len(place), dtype=np.int32) // 2  # all in pairs
    few = {"index": index, "target": "D", "modify": {"few_shot_target": {"each": 5}}}
    held, tested = {}, {}
    for groups in ("apart", "together"):
        table = division(SMALL, "domain_per_client", {}, groups=groups, **few)
        held[groups] = set(index["group"][(table["client"] >= 0) & (table["domain"] == "D")])
        tested[groups] = set(index["group"][table["split"] == "target"])
    assert held["apart"] == held["together"]  # the same images are drawn
    assert tested["apart"] & held["apart"]
    assert tested["together"] == tested["apart"] - held["apart"]


def test_of_two_held_out_domains_the_one_to_choose_on_loses_what_is_reported() -> None:
    index = twinned("CD")
    table = division(SMALL, "domain_per_client", {}, index=index, target=("D", "C"), groups="together")
    assert table[index["group"] >= 0].groupby("domain")["split"].unique().map(list).to_dict() == {
        "C": ["unused"],
        "D": ["target"],
    }
