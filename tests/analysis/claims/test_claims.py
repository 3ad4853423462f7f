"""Claims of the papers: paired differences, their intervals worked out by hand, and what follows from them."""

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ttest_1samp

from fedshift.analysis.claims import judge as claims
from fedshift.analysis.claims import words as claim_words
from fedshift.analysis.claims.comparison import declared
from fedshift.analysis.claims.words import RULE
from fedshift.common.errors import FedshiftError
from fedshift.experiments.expand import expand
from fedshift.experiments.load import available, load
from fedshift.storage.workspace import Workspace

from ..conftest import REFERENCE, Project
from ..judging import HFEDF, Values, collected, judged, less_by, told, verdicts


def test_a_claim_may_be_of_any_metric(project: Project) -> None:
    """Losses are recorded as 1 for every run: differences of 0, whatever the accuracies."""
    verdict = judged(project, "HF-C04.1", {"hfedf": HFEDF, "fedavg": less_by(1, 2, 3)}, metric="loss.ood")
    (against,) = verdict.differences
    assert (against.difference, against.seeds) == (0, 3)
    assert verdict.statement.endswith(", loss.ood")


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
    assert (against.difference, against.low, against.high) == pytest.approx((1, 1 - half, 1 + half))
    library = ttest_1samp([0.8, 1.0, 1.2], 0).confidence_interval()
    assert (against.low, against.high) == pytest.approx((library.low, library.high))
    assert against.pairs == pytest.approx({"a": 6, "b": -2, "c": -2, "d": 2})
    assert (one.verdict, one.statement) == ("as published", "hfedf > fedavg, ood")
    assert told(one) == "fedavg +1.0 [+0.5, +1.5], 3 seeds"
    assert one.differs == ("protocol digits (ours), paper hFedF",)
    assert one.orientation == pytest.approx(54.6 - 51.3) and math.isnan(one.printed)


@pytest.mark.parametrize(
    "axes", [{"target": ["a", "b", "c", "d"], "seed": [0]}, {"target": ["a", "b", "c", "d"]}]
)
def test_one_seed_decides_nothing_on_however_many_targets(project: Project, axes: dict[str, Any]) -> None:
    one = judged(project, "HF-C04.1", {"hfedf": [0.6] * 4, "fedavg": [0.57, 0.58, 0.56, 0.57]}, axes)
    (against,) = one.differences
    assert one.verdict == "open"
    assert (against.difference, against.seeds) == (pytest.approx(3), 1)
    assert math.isnan(against.low) and math.isnan(against.high)
    assert told(one) == "fedavg +3.0 (a +3.0, b +2.0, c +4.0, d +3.0), 1 seed: no interval"


def test_a_seed_that_lacks_a_run_is_left_out_and_that_is_said(project: Project) -> None:
    """Seed 1 has a's +13 alone: averaged with the others it would say +5.7."""
    fedavg: list[float | None] = [*less_by(2, 8, 3)]
    fedavg[4] = None
    one = judged(project, "HF-C04.1", {"hfedf": HFEDF, "fedavg": fedavg})
    (against,) = one.differences
    assert (against.difference, against.seeds, against.planned) == (pytest.approx(2.5), 2, 3)
    assert told(one) == "fedavg +2.5 [-3.9, +8.9], 2 seeds of 3: the others lack a run"
    assert one.verdict == "open"


def test_one_whole_seed_of_three_and_none(project: Project) -> None:
    fedavg: list[float | None] = [*less_by(2, 8, 3)]
    hfedf: list[float | None] = [*HFEDF]
    hfedf[0] = fedavg[4] = None
    fedprox = [None, *HFEDF[1:4], None, None]
    others = dict.fromkeys(("fedprox", "pfedhn", "fedsr", "fedgma"), fedprox)
    one = judged(project, "HF-C01.2", {"hfedf": hfedf, "fedavg": fedavg, **others})
    assert (one.verdict, one.differences[0].seeds, one.differences[1].seeds) == ("open", 1, 0)
    alone = "fedavg +3.0 (a +8.0, b -2.0), 1 seed of 3: the others lack a run: no interval; "
    assert told(one).startswith(f"1 of 5 compared: {alone}fedprox: no seed with all its runs; ")


@pytest.mark.parametrize(
    ("fedavg", "verdict"),
    [
        (less_by(-3, -4, -3.5), "against"),
        (less_by(-1, -2, -1.5), "against"),  # t = -5.2, where 5% is at 4.30
        (less_by(-1, -3, -1), "open"),  # -2.5
        (less_by(3, -4, 5), "open"),
        ([0.57, *[None] * 5], "not run"),
        ([None] * 6, "not run"),
    ],
)
def test_two_rows_are_a_paired_test(project: Project, fedavg: Values, verdict: str) -> None:
    assert judged(project, "HF-C04.1", {"hfedf": HFEDF, "fedavg": fedavg}).verdict == verdict


def test_a_claim_whose_sides_are_alike_in_each_seed_asks_for_no_more_seeds(project: Project) -> None:
    one = judged(project, "HF-C04.1", {"hfedf": HFEDF, "fedavg": less_by(0, 0, 0)})
    assert (one.verdict, told(one)) == ("open", "fedavg +0.0, 3 seeds: the same in each, so no interval")


def test_more_than_the_best_means_more_than_each(project: Project) -> None:
    others = dict.fromkeys(("fedavg", "fedprox", "pfedhn", "fedsr", "fedgma"), less_by(5, 4, 5))
    assert judged(project, "HF-C01.2", {"hfedf": HFEDF, **others}).verdict == "as published"


def test_one_equal_method_leaves_the_best_undecided(project: Project) -> None:
    less = dict.fromkeys(("fedavg", "fedprox", "pfedhn", "fedsr"), less_by(20, 20, 21))
    one = judged(project, "HF-C01.2", {"hfedf": HFEDF, **less, "fedgma": less_by(-1, 1, 1)})
    assert [each.right for each in one.differences] == [*less, "fedgma"]
    assert one.verdict == "open"
    assert one.statement == "hfedf > each of 5, ood"


def test_the_spread_is_that_of_all_rows_at_the_same_place(project: Project) -> None:
    """fedavg's own differences are -1, -3, -1, which two rows leave open; four calm rows beside it tell it."""
    orders = {"fedprox": (0, 1, 2), "pfedhn": (2, 0, 1), "fedsr": (1, 2, 0), "fedgma": (0, 2, 1)}
    calm = {name: less_by(*(5 + 0.1 * place for place in order)) for name, order in orders.items()}
    one = judged(project, "HF-C04.1", {"hfedf": HFEDF, "fedavg": less_by(-1, -3, -1), **calm})
    (gap,) = one.differences
    seeds = [HFEDF, less_by(-1, -3, -1), *calm.values()]
    means = np.array([[100 * (row[k] + row[k + 3]) / 2 for k in range(3)] for row in seeds])
    left = means - means.mean(0) - means.mean(1, keepdims=True) + means.mean()
    error = math.sqrt((left**2).sum() / 10 * 2 / 3)
    assert (gap.error, gap.freedom) == pytest.approx((error, 10))
    assert one.verdict == "against"


def test_a_row_that_lacks_a_seed_shares_no_spread(project: Project) -> None:
    fedprox: list[float | None] = [*HFEDF[:5], None]
    one = judged(project, "HF-C04.1", {"hfedf": HFEDF, "fedavg": less_by(1, 2, 3), "fedprox": fedprox})
    assert one.differences[0].freedom == 2


@pytest.mark.parametrize(
    ("shifts", "margin", "verdict"),
    [
        ((3, 2, 4), {"margin": 6.0}, "as published"),  # the interval is [0.52, 5.48]
        ((3, 2, 4), {"margin": 3.0}, "open"),
        ((3, 2, 4), {"margin": 0.5}, "against"),
        ((0.5, 0.6, 0.7), {}, "as published"),  # the paper's on DomainNet is 1 point; [0.35, 0.85]
    ],
)
def test_equal_means_within_a_margin(
    project: Project, shifts: tuple[float, ...], margin: dict[str, float], verdict: str
) -> None:
    """FDSE-C17.1: "comparable to FedBN"."""
    rows, ood = {"A0 B0 C0": "fdse", "item 1:FedBN": "fedbn"}, {"fdse": HFEDF, "fedbn": less_by(*shifts)}
    assert judged(project, "FDSE-C17.1", ood, rows=rows, **margin).verdict == verdict


@pytest.mark.parametrize(
    ("shifts", "verdict"),
    [((-0.1, 0.2, 0), "as published"), ((-9, -8, -10), "against"), ((-2, 2, -4), "open")],
)
def test_not_worse_is_within_the_papers_margin(
    project: Project, shifts: tuple[float, ...], verdict: str
) -> None:
    """HF-C36.1: "FedAvg is a strong benchmark"; hFedF's margin on PACS is 2 points."""
    one = judged(project, "HF-C36.1", {"fedavg": HFEDF, "fedsr": less_by(*shifts)})
    assert (one.verdict, one.statement) == (verdict, "fedavg >= fedsr, ood")


@pytest.mark.parametrize(("far", "verdict"), [((20, 21, 20), "against"), ((0.1, 0, 0.2), "as published")])
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
        ((0.2, 0, 0.1), (0.1, 0.2, 0), "as published"),
        ((20, 21, 20), (0.1, 0.2, 0), "as published"),  # far better than one, as good as the best
        ((1, 0, 0.5), (20, 21, 20), "open"),  # below the margin at 5%, not at half of it: [-1.3, 2.3]
        ((20, 21, 20), (9, 8, 10), "against"),  # better than the best
        ((0.2, 0, 0.1), (-9, -8, -10), "against"),  # worse than the best
        ((0.2, 0, 0.1), (-9, 8, -10), "open"),
    ],
)
def test_comparable_to_several_means_as_good_as_the_best(
    project: Project, fedavg: tuple[float, ...], fedbn: tuple[float, ...], verdict: str
) -> None:
    """FDSE-C09.1: without adaptation FDSE is comparable to the best of FedAvg and adapted FedBN."""
    ood = {"fdse": HFEDF, "fedavg": less_by(*fedavg), "fedbn": less_by(*fedbn)}
    one = judged(project, "FDSE-C09.1", ood, rows=ROWS, margin=2.0)
    assert (one.verdict, one.statement) == (verdict, "fdse ~ the best of 2, ood")


@pytest.mark.parametrize(("shift", "verdict"), [(-3, "as published"), (3, "against")])
def test_what_the_paper_prints_the_other_way_round_is_as_published(
    project: Project, shift: float, verdict: str
) -> None:
    """HF-C09.1: hFedF is said to beat Local in almost every case, and is printed 4.9 below it here."""
    ood = {"hfedf": HFEDF, "local": less_by(shift, shift - 0.2, shift + 0.2)}
    assert judged(project, "HF-C09.1", ood).verdict == verdict


def test_only_the_values_that_are_asked_for_are_paired(project: Project) -> None:
    one = judged(project, "HF-C04.1", {"hfedf": HFEDF, "fedavg": [0.50] * 6}, where={"target": "a"})
    assert [(each.difference, each.seeds) for each in one.differences] == [(pytest.approx(10), 3)]
    assert one.differences[0].pairs == pytest.approx({"a": 10})


@pytest.mark.parametrize(
    ("name", "claim", "said"),
    [
        ("HF-C04.9", {}, r"unknown claim of reference/claims.csv 'HF-C04.9'"),
        ("HF-C05.1", {"where": {"targt": "a"}}, r"where: unknown axis 'targt'(.|\n)*Did you mean 'target'"),
        ("HF-C06.1", {}, r"HF-C06.1: speaks of 'pFedHN', which is not a row(.|\n)*rows:"),
    ],
)
def test_what_cannot_be_judged_is_named(
    project: Project, name: str, claim: dict[str, Any], said: str
) -> None:
    with pytest.raises(FedshiftError, match=said):
        judged(project, name, {"hfedf": HFEDF, "fedavg": HFEDF}, **claim)


def test_every_claim_of_the_experiments_can_be_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows and relations resolve, before anything is trained."""
    workspace = Workspace(REFERENCE.parent)
    monkeypatch.setattr(claims, "comparisons", lambda workspace, of: [*declared(workspace, of)])
    monkeypatch.setattr(claims, "curves", lambda *_: None)
    monkeypatch.setattr(claims, "is_there", lambda *_: False)
    monkeypatch.setattr(claims, "_values", lambda workspace, found, *_: found.runs.assign(value=math.nan))
    for name in available(workspace):
        experiment = load(workspace, name)
        if experiment.claims:
            uses = expand(workspace, experiment)
            keys = ["method", *dict.fromkeys(axis for cell in uses for axis in cell.axes)]
            runs = pd.DataFrame([{"method": cell.label, **cell.axes} for cell in uses])
            found: Any = SimpleNamespace(experiment=experiment, keys=keys, runs=runs)
            judged = claims.verdicts(workspace, found)
            assert {*judged["claim"]} == {*experiment.claims} and {*judged["verdict"]} == {"not run"}


# ---- verdicts on claims as pages and files show them

NONE: Values = [None] * 6
LATER: Values = [None, *HFEDF[1:]]


@pytest.mark.parametrize(
    ("rounds", "targets", "reason"),
    [
        (200, ["art_painting", "cartoon", "photo", "sketch"], ""),
        (60, ["art_painting", "cartoon", "photo", "sketch"], "federation.rounds 60, paper 200"),
        (200, ["photo"], "data.target photo, paper art_painting, cartoon, photo, sketch"),
    ],
)
def test_a_printed_difference_of_another_experiment_is_for_orientation(
    project: Project, rounds: int, targets: list[str], reason: str
) -> None:
    spec = {"data": {"dataset": "pacs"}, "federation": {"rounds": rounds}}
    ood = {"hfedf": [0.6, 0.6] * len(targets), "fedavg": [0.57, 0.58] * len(targets)}
    declared = {"protocol": "hfedf", "spec": spec, "claims": {"HF-C04.1": {"metric": "ood"}}}
    found = collected(project, ood, {"target": targets, "seed": [0, 1]}, **declared)
    (one,) = verdicts(Workspace(REFERENCE.parent), found)
    assert one.differs == ((reason,) if reason else ())
    shown, apart = (one.orientation, one.printed) if reason else (one.printed, one.orientation)
    assert shown == pytest.approx(54.6 - 51.3) and math.isnan(apart)
    assert claim_words.lines(one.rows)[0][2] == ("orientation: +3.3" if reason else "+3.3")
    rule, *lines = claim_words.footnotes(one.rows)
    assert rule == RULE and all(reason in line for line in lines) and len(lines) == bool(reason)


@pytest.mark.parametrize(
    ("hfedf", "fedavg", "said"),
    [
        (HFEDF, NONE, "fedavg: no seed with all its runs"),
        (NONE, HFEDF, "hfedf: no seed with all its runs"),
        (NONE, NONE, "hfedf and fedavg: no seed with all its runs"),
        ([HFEDF[0], None, None, HFEDF[3], None, None], LATER, "fedavg: no seed with all runs of both sides"),
    ],
)
def test_the_side_that_lacks_runs_is_named(
    project: Project, hfedf: Values, fedavg: Values, said: str
) -> None:
    one = judged(project, "HF-C04.1", {"hfedf": hfedf, "fedavg": fedavg, "fedprox": HFEDF})
    assert (one.verdict, told(one)) == ("not run", said)


def test_a_sentence_is_the_list_of_its_comparisons() -> None:
    """HF-C01 says of most of 4: two are run, one is on another experiment than the paper's, one is not tested."""
    outcomes = {"HF-C01.1": "as published", "HF-C01.2": "open", "HF-C01.3": "no run", "HF-C09.1": "against"}
    found = claim_words.sentences(Workspace(REFERENCE.parent), outcomes)
    counts = found[["claim", "said", "as published", "against", "open", "not run", "others"]]
    assert counts.to_numpy().tolist() == [
        ["HF-C01", "most of 4", 1, 0, 1, 0, 2],
        ["HF-C09", "almost all of 18", 0, 1, 0, 0, 17],
    ]
