"""Images that are duplicates of each other: apart, as a scheme puts them, or together in one client and split."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedshift.data.partition import random_split
from fedshift.data.scheme import generator, permutation
from tests.data.divisions import SCHEMES, SMALL, division
from tests.data.test_partition import OFFICE, make_index


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
