"""Claims of the papers: paired differences, their intervals worked out by hand, and what follows from them."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
import pytest
from scipy.stats import ttest_1samp

from fedshift.analysis import claims
from fedshift.analysis.claims import lines as claim_lines
from fedshift.analysis.claims import values as claim_values
from fedshift.analysis.claims.comparison import declared
from fedshift.common.errors import FedshiftError
from fedshift.experiments.expand import expand
from fedshift.experiments.load import available, load
from fedshift.storage.workspace import Workspace

from ..conftest import REFERENCE, Project
from ..judging import HFEDF, Values, judged, less_by, told


def test_a_claim_may_be_of_any_metric(project: Project) -> None:
    """Losses are recorded as 1 for every run: differences of 0, whatever the accuracies."""
    verdict = judged(project, "HF-C04.1", {"hfedf": HFEDF, "fedavg": less_by(1, 2, 3)}, metric="loss.ood")
    (against,) = verdict.differences
    assert (against.mean, against.seeds) == (0, 3)
    assert verdict.statement.endswith(", loss.ood")


@pytest.mark.parametrize("name", ["hfedf/figure7", "hfedf/table5"])
def test_sides_on_data_sets_of_their_own_are_the_papers_settings(name: str) -> None:
    """HF-C20 compares Office-Home with PACS, as the paper does; the reference names one of them."""
    workspace = Workspace(REFERENCE.parent)
    found = {of.claim["id"]: of.differs for of in declared(workspace, load(workspace, name))}
    assert found and not any(found.values()), found


def test_targets_are_averaged_first_and_the_interval_is_students_t_over_seeds(project: Project) -> None:
    """Domains are fixed: +6, -2, -2 and +2 in every seed are +1, and only what seeds add makes it uncertain."""
    of = [0.5] * 12
    fedavg = less_by(-0.2, 0, 0.2, effects=(6, -2, -2, 2), of=of)
    axes = {"target": ["a", "b", "c", "d"], "seed": [0, 1, 2]}
    one = judged(project, "HF-C04.1", {"hfedf": of, "fedavg": fedavg}, axes)
    (against,) = one.differences
    # Seeds 0.8, 1.0, 1.2: mean 1, standard error 0.2 / sqrt(3); t of 2 degrees of freedom at 97.5% is 4.3027.
    assert (against.right, against.seeds, against.planned) == ("fedavg", 3, 3)
    half = 4.302653 * 0.2 / math.sqrt(3)
    assert (against.mean, against.low, against.high) == pytest.approx((1, 1 - half, 1 + half))
    library = ttest_1samp([0.8, 1.0, 1.2], 0).confidence_interval()
    assert (against.low, against.high) == pytest.approx((library.low, library.high))
    assert against.pairs == pytest.approx({"a": 6, "b": -2, "c": -2, "d": 2})
    assert math.isnan(against.pairs_low) and math.isnan(against.pairs_high)
    assert (one.verdict, one.statement) == ("confirmed", "hfedf > fedavg, ood")
    assert told(one) == "fedavg +1.0 [+0.5, +1.5], 3 seeds"
    assert (one.orientation, one.differs) == (
        pytest.approx(54.6 - 51.3),
        ("protocol digits (ours), paper hFedF",),
    )
    assert math.isnan(one.printed)


@pytest.mark.parametrize(
    "axes", [{"target": ["a", "b", "c", "d"], "seed": [0]}, {"target": ["a", "b", "c", "d"]}]
)
def test_one_seed_decides_nothing_on_however_many_targets(project: Project, axes: dict[str, Any]) -> None:
    one = judged(project, "HF-C04.1", {"hfedf": [0.6] * 4, "fedavg": [0.57, 0.58, 0.56, 0.57]}, axes)
    (against,) = one.differences
    assert one.verdict == "undecided"
    assert (against.mean, against.seeds) == (pytest.approx(3), 1)
    assert math.isnan(against.low) and math.isnan(against.high)
    # 3, 2, 4, 3: standard error sqrt(2/3) / 2; t of 3 degrees of freedom at 97.5% is 3.1824. It excludes 0 and judges nothing.
    half = 3.182446 * math.sqrt(2 / 3) / 2
    assert (against.pairs_low, against.pairs_high) == pytest.approx((3 - half, 3 + half))
    pairs = "(a +3.0, b +2.0, c +4.0, d +3.0) [+1.7, +4.3] over these 4"
    assert told(one) == f"fedavg +3.0 {pairs}, 1 seed; no interval over seeds"
    row = claim_lines.table([one]).iloc[0]
    assert row["pairs"] == "a +3.0, b +2.0, c +4.0, d +3.0"
    assert (row["pairs_low"], row["pairs_high"]) == (against.pairs_low, against.pairs_high)


def test_one_pair_alone_has_no_interval(project: Project) -> None:
    one = judged(project, "HF-C04.1", {"hfedf": [0.6], "fedavg": [0.57]}, {"target": ["a"], "seed": [0]})
    assert told(one) == "fedavg +3.0 (a +3.0), 1 seed; no interval over seeds"
    assert math.isnan(one.differences[0].pairs_low)


def test_a_seed_that_lacks_a_run_is_left_out_and_that_is_said(project: Project) -> None:
    """Seed 1 has a's +13 alone: averaged with the others it would say +5.7."""
    fedavg: list[float | None] = [*less_by(2, 8, 3)]
    fedavg[4] = None
    one = judged(project, "HF-C04.1", {"hfedf": HFEDF, "fedavg": fedavg})
    (against,) = one.differences
    assert (against.mean, against.seeds, against.planned) == (pytest.approx(2.5), 2, 3)
    said = "fedavg +2.5 [-3.9, +8.9], 2 seeds of 3: the others lack a run; at power 0.8: 2 seeds detect 8.2 or more; this difference would take 3"
    assert told(one) == said
    assert one.verdict == "undecided"


def test_one_whole_seed_of_three_and_none(project: Project) -> None:
    fedavg: list[float | None] = [*less_by(2, 8, 3)]
    hfedf: list[float | None] = [*HFEDF]
    hfedf[0] = fedavg[4] = None
    fedprox = [None, *HFEDF[1:4], None, None]
    ood = {
        "hfedf": hfedf,
        "fedavg": fedavg,
        **dict.fromkeys(("fedprox", "pfedhn", "fedsr", "fedgma"), fedprox),
    }
    one = judged(project, "HF-C01.2", ood)
    assert (one.verdict, one.differences[0].seeds, one.differences[1].seeds) == ("undecided", 1, 0)
    pairs = "(a +8.0, b -2.0) [-60.5, +66.5] over these 2"  # half the range times t of 1 degree of freedom, 12.706
    alone = (
        f"1 of 5 compared: fedavg +3.0 {pairs}, 1 seed of 3: the others lack a run; no interval over seeds; "
    )
    assert told(one).startswith(f"{alone}fedprox: no seed with all its runs; ")


@pytest.mark.parametrize(
    ("fedavg", "verdict"),
    [
        (less_by(-3, -4, -3.5), "refuted"),
        (less_by(3, -4, 5), "undecided"),
        ([0.57, *[None] * 5], "undecided"),
        ([None] * 6, "undecided"),
    ],
)
def test_verdicts(project: Project, fedavg: Values, verdict: str) -> None:
    assert judged(project, "HF-C04.1", {"hfedf": HFEDF, "fedavg": fedavg}).verdict == verdict


def test_more_than_the_best_means_more_than_each(project: Project) -> None:
    others = dict.fromkeys(("fedavg", "fedprox", "pfedhn", "fedsr", "fedgma"), less_by(5, 4, 5))
    assert judged(project, "HF-C01.2", {"hfedf": HFEDF, **others}).verdict == "confirmed"


def test_one_equal_method_leaves_the_best_undecided(project: Project) -> None:
    less = dict.fromkeys(("fedavg", "fedprox", "pfedhn", "fedsr"), less_by(20, 20, 21))
    one = judged(project, "HF-C01.2", {"hfedf": HFEDF, **less, "fedgma": less_by(-1, 1, 1)})
    assert [each.right for each in one.differences] == [*less, "fedgma"]
    assert one.verdict == "undecided"
    assert one.statement == "hfedf > each of 5, ood"


MANY = ("fedprox", "pfedhn", "fedsr", "fedgma")


@pytest.mark.parametrize(
    ("claim", "others", "shifts", "verdict"),
    [
        ("HF-C04.1", (), (-1, -3, -1), "undecided"),  # t = -2.5; 5% is at 4.30
        ("HF-C04.1", (), (-1, -2, -1.5), "refuted"),  # t = -5.2
        ("HF-C01.2", MANY, (-1, -2, -1.5), "undecided"),  # 1% is at 9.92
        ("HF-C01.2", MANY, (-1, -1.2, -1.1), "refuted"),  # t = -19
    ],
)
def test_refuting_one_of_many_needs_a_smaller_chance(
    project: Project, claim: str, others: tuple[str, ...], shifts: tuple[float, ...], verdict: str
) -> None:
    less = dict.fromkeys(others, less_by(20, 20, 21))
    assert judged(project, claim, {"hfedf": HFEDF, "fedavg": less_by(*shifts), **less}).verdict == verdict


@pytest.mark.parametrize(("margin", "verdict"), [(6.0, "confirmed"), (3.0, "undecided"), (0.5, "refuted")])
def test_equal_means_within_a_margin(project: Project, margin: float, verdict: str) -> None:
    """FDSE-C17.1: "comparable to FedBN". The interval is [0.52, 5.48]."""
    rows = {"A0 B0 C0": "fdse", "item 1:FedBN": "fedbn"}
    ood = {"fdse": HFEDF, "fedbn": less_by(3, 2, 4)}
    assert judged(project, "FDSE-C17.1", ood, rows=rows, margin=margin).verdict == verdict


def test_equal_is_within_the_papers_margin_where_the_claim_declares_none(project: Project) -> None:
    """FDSE's is 2 points; the interval is [1.25, 1.75]."""
    rows = {"A0 B0 C0": "fdse", "item 1:FedBN": "fedbn"}
    ood = {"fdse": HFEDF, "fedbn": less_by(1.4, 1.5, 1.6)}
    assert judged(project, "FDSE-C17.1", ood, rows=rows).verdict == "confirmed"


@pytest.mark.parametrize(
    ("shifts", "verdict"),
    [((-0.1, 0.2, 0), "confirmed"), ((-9, -8, -10), "refuted"), ((-2, 2, -4), "undecided")],
)
def test_not_worse_is_within_the_papers_margin(
    project: Project, shifts: tuple[float, ...], verdict: str
) -> None:
    """HF-C36.1: "FedAvg is a strong benchmark"; hFedF's margin is 3.3 points."""
    one = judged(project, "HF-C36.1", {"fedavg": HFEDF, "fedsr": less_by(*shifts)})
    assert (one.verdict, one.statement) == (verdict, "fedavg >= fedsr, ood")


@pytest.mark.parametrize(("far", "verdict"), [((20, 21, 20), "refuted"), ((0.1, 0, 0.2), "confirmed")])
def test_several_on_the_left_are_each_near(project: Project, far: tuple[float, ...], verdict: str) -> None:
    """HF-C26.1: neither dimension nor learnability matters much."""
    ood = {"hfedf": HFEDF, "fedavg": less_by(0.2, 0, 0.1), "fedprox": less_by(*far)}
    rows = {"hFedF": "hfedf", "embedding dimension or fixed embedding": ["fedavg", "fedprox"]}
    one = judged(project, "HF-C26.1", ood, rows=rows)
    assert (one.verdict, one.statement) == (verdict, "each of 2 ~ hfedf, ood")


ROWS = {"FDSE - align (no adaptation)": "fdse", "FedBN (adapted)": "fedbn"}


@pytest.mark.parametrize(
    ("fedavg", "fedbn", "verdict"),
    [
        ((0.2, 0, 0.1), (0.1, 0.2, 0), "confirmed"),
        ((20, 21, 20), (0.1, 0.2, 0), "confirmed"),  # far better than one, as good as the best
        ((1, 0, 0.5), (20, 21, 20), "undecided"),  # below the margin at 5%, not at half of it: [-1.3, 2.3]
        ((20, 21, 20), (9, 8, 10), "refuted"),  # better than the best
        ((0.2, 0, 0.1), (-9, -8, -10), "refuted"),  # worse than the best
        ((0.2, 0, 0.1), (-9, 8, -10), "undecided"),
    ],
)
def test_comparable_to_several_means_as_good_as_the_best(
    project: Project, fedavg: tuple[float, ...], fedbn: tuple[float, ...], verdict: str
) -> None:
    """FDSE-C09.1: without adaptation FDSE is comparable to the best of FedAvg and adapted FedBN."""
    ood = {"fdse": HFEDF, "fedavg": less_by(*fedavg), "fedbn": less_by(*fedbn)}
    one = judged(project, "FDSE-C09.1", ood, rows=ROWS, margin=2.0)
    assert (one.verdict, one.statement) == (verdict, "fdse ~ the best of 2, ood")


def test_of_equality_the_distance_from_the_margin_counts(project: Project) -> None:
    rows = {"A0 B0 C0": "fdse", "item 1:FedBN": "fedbn"}
    ood = {"fdse": HFEDF, "fedbn": less_by(3, 2, 4)}
    one = judged(project, "FDSE-C17.1", ood, rows=rows, margin=4.0)
    assert (one.verdict, one.differences[0].needed) == ("undecided", 10)


def test_only_the_values_that_are_asked_for_are_paired(project: Project) -> None:
    one = judged(project, "HF-C04.1", {"hfedf": HFEDF, "fedavg": [0.50] * 6}, where={"target": "a"})
    assert [(each.mean, each.seeds) for each in one.differences] == [(pytest.approx(10), 3)]
    assert one.differences[0].pairs == pytest.approx({"a": 10})


@pytest.mark.parametrize(
    ("name", "claim", "said"),
    [
        ("HF-C04.9", {}, r"unknown claim of reference/claims.csv 'HF-C04.9'"),
        ("HF-C05.1", {"where": {"targt": "a"}}, r"where: unknown axis 'targt'(.|\n)*Did you mean 'target'"),
        ("HF-C06.1", {}, r"HF-C06.1: speaks of 'pFedHN', which is no row(.|\n)*rows:"),
    ],
)
def test_what_cannot_be_judged_is_named(
    project: Project, name: str, claim: dict[str, Any], said: str
) -> None:
    with pytest.raises(FedshiftError, match=said):
        judged(project, name, {"hfedf": HFEDF, "fedavg": HFEDF}, **claim)


def test_every_claim_of_the_experiments_can_be_judged() -> None:
    """Rows and relations resolve, before anything is trained."""
    workspace = Workspace(REFERENCE.parent)
    for name in available(workspace):
        experiment = load(workspace, name)
        if experiment.claims:
            uses = expand(workspace, experiment)
            keys = ["method", *dict.fromkeys(axis for cell in uses for axis in cell.axes)]
            runs = pd.DataFrame([{"method": cell.label, **cell.axes} for cell in uses])
            for comparison in declared(workspace, experiment):
                own = [cell for cell in comparison.cells if cell.experiment == name]
                missing = runs.assign(**{cell.metric: math.nan for cell in own})
                values = claim_values.Values({(name, cell.rounds): missing for cell in own}, {name: keys[1:]})
                assert claims._verdict(workspace, name, values, comparison).verdict == "undecided"
