"""What modifiers and groups of duplicates change of a partition, and what they leave as it was."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedshift.common.errors import FedshiftError
from fedshift.data.partition import random_split
from fedshift.data.scheme import generator, permutation
from tests.data.test_partition import PACS, SCHEMES, SMALL, division, make_index


def test_label_shift_of_fedrd() -> None:
    """A tenth of the rare classes stays in training; validation and test do not change."""
    natural = division(PACS, "domain_per_client", {}, target="photo")
    shift = {"label_shift": {"classes": {"art_painting": [0], "sketch": [1, 2]}, "share": 0.0}}
    shifted = division(PACS, "domain_per_client", {}, target="photo", modify=shift)
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


@settings(deadline=None, max_examples=50)
@given(seed=st.integers(0, 10**6), n=st.integers(20, 60), groups=st.integers(1, 5))
def test_duplicates_stay_on_one_side(seed: int, n: int, groups: int) -> None:
    group = np.full(n, -1, dtype=np.int32)
    group[: 3 * groups] = np.repeat(np.arange(groups), 3)
    group = group[permutation(generator(seed, "groups"), n)]
    split = random_split((0.6, 0.2, 0.2), generator(seed, "split"), group)
    assert all(len(set(split[group == one])) == 1 for one in range(groups))
    none = np.full(n, -1, dtype=np.int32)
    plain = random_split((0.6, 0.2, 0.2), generator(seed, "split"), none)
    for part in ("val", "test"):
        assert abs(int((split == part).sum()) - int((plain == part).sum())) <= 2


@pytest.mark.parametrize("scheme", ["clients_per_domain", "dirichlet"])
def test_duplicates_meet_in_one_client_and_split(scheme: str) -> None:
    pairs = make_index(SMALL)
    pairs["group"] = pairs.index // 2  # of one domain each, but for two pairs

    def halves(groups: str) -> pd.Series[int]:
        table = division(SMALL, scheme, SCHEMES[scheme], index=pairs, target="D", seed=15, groups=groups)
        return table.groupby([pairs["domain"], pairs["group"]])[["client", "split"]].nunique().max()

    assert halves("apart").tolist() == [2, 2]
    assert halves("together").tolist() == [1, 1]


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
