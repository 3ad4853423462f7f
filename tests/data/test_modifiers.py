"""What modifiers change of a partition, and what they leave as it was."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedshift.common.errors import FedshiftError
from tests.data.divisions import SCHEMES, SMALL, division
from tests.data.test_partition import PACS


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
