"""Claims of the papers: paired differences, their intervals worked out by hand, and what follows from them."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
import pytest
from scipy.stats import ttest_rel

from fedshift.analysis import claims, tables
from fedshift.analysis.claims import Verdict, verdicts
from fedshift.analysis.collect import Collected
from fedshift.errors import FedshiftError
from fedshift.experiments import expand, load

from .conftest import REFERENCE, Project, accuracy

PAIRS = [("a", 0), ("a", 1), ("b", 0), ("b", 1)]


def collected(project: Project, ood: dict[str, list[float | None]], **declared: Any) -> Collected:
    """Methods with their held-out accuracies over PAIRS; None for a run that has not finished."""
    axes = {"target": ["a", "b"], "seed": [0, 1]}
    project.declare(methods=dict.fromkeys(ood), axes=axes, tables={"t": {}}, **declared)
    for method, values in ood.items():
        for (target, seed), value in zip(PAIRS, values, strict=True):
            found = None if value is None else {1: accuracy((0.5, 0.5), ood=value)}
            project.add(method, found, target=target, seed=seed)
    return project.collect()


def judged(project: Project, name: str, ood: dict[str, list[float | None]], **claim: Any) -> Verdict:
    found = collected(project, ood, claims={name: {"metric": "ood", **claim}})
    (verdict,) = verdicts(REFERENCE.parent, found)
    return verdict


HFEDF = [0.60, 0.62, 0.55, 0.58]


def test_the_interval_is_students_t_over_the_pairs(project: Project) -> None:
    one = judged(project, "HF-C04.1", {"hfedf": [*HFEDF], "fedavg": [0.57, 0.60, 0.51, 0.55]})
    (against,) = one.differences
    # Differences 3, 2, 4, 3: mean 3, standard error sqrt(2/3) / 2; t of 3 degrees of freedom at 97.5% is 3.1824.
    assert (against.right, against.pairs) == ("fedavg", 4)
    assert against.mean == pytest.approx(3)
    assert (against.low, against.high) == pytest.approx(
        (3 - 3.182446 * math.sqrt(1 / 6), 3 + 3.182446 * math.sqrt(1 / 6))
    )
    library = ttest_rel([60, 62, 55, 58], [57, 60, 51, 55]).confidence_interval()
    assert (against.low, against.high) == pytest.approx((library.low, library.high))
    assert (one.verdict, one.said) == ("confirmed", "hfedf > fedavg, ood")
    assert one.printed == pytest.approx(54.6 - 51.3)


@pytest.mark.parametrize(
    ("fedavg", "verdict"),
    [
        ([0.63, 0.66, 0.60, 0.62], "refuted"),
        ([0.57, 0.66, 0.50, 0.60], "undecided"),
        ([0.57, None, None, None], "undecided"),
        ([None] * 4, "undecided"),
    ],
)
def test_verdicts(project: Project, fedavg: list[float | None], verdict: str) -> None:
    assert judged(project, "HF-C04.1", {"hfedf": [*HFEDF], "fedavg": fedavg}).verdict == verdict


def test_more_than_the_best_means_more_than_each(project: Project) -> None:
    less = [value - 0.05 + shift for value, shift in zip(HFEDF, (0, 0.01, 0, 0.01), strict=True)]
    others: dict[str, list[float | None]] = {
        name: [*less] for name in ("fedavg", "fedprox", "pfedhn", "fedsr", "fedgma")
    }
    assert judged(project, "HF-C01.2", {"hfedf": [*HFEDF], **others}).verdict == "confirmed"


def test_one_equal_method_leaves_the_best_undecided(project: Project) -> None:
    less: dict[str, list[float | None]] = {
        name: [0.4, 0.41, 0.4, 0.41] for name in ("fedavg", "fedprox", "pfedhn", "fedsr")
    }
    one = judged(project, "HF-C01.2", {"hfedf": [*HFEDF], **less, "fedgma": [0.61, 0.61, 0.56, 0.57]})
    assert [each.right for each in one.differences] == [*less, "fedgma"]
    assert one.verdict == "undecided"
    assert one.said == "hfedf > each of 5, ood"


@pytest.mark.parametrize(
    ("claim", "others", "shifts", "verdict"),
    [
        ("HF-C04.1", (), (0.01, 0.03, 0.01, 0.01), "undecided"),  # t = -3.0; 5% is at 3.18
        ("HF-C04.1", (), (0.01, 0.02, 0.01, 0.02), "refuted"),  # t = -5.2
        (
            "HF-C01.2",
            ("fedprox", "pfedhn", "fedsr", "fedgma"),
            (0.01, 0.02, 0.01, 0.02),
            "undecided",
        ),  # 1% is at 5.84
        (
            "HF-C01.2",
            ("fedprox", "pfedhn", "fedsr", "fedgma"),
            (0.01, 0.01, 0.01, 0.012),
            "refuted",
        ),  # t = -21
    ],
)
def test_refuting_one_of_many_needs_a_smaller_chance(
    project: Project, claim: str, others: tuple[str, ...], shifts: tuple[float, ...], verdict: str
) -> None:
    more = [value + shift for value, shift in zip(HFEDF, shifts, strict=True)]
    less: dict[str, list[float | None]] = {name: [0.4, 0.41, 0.4, 0.41] for name in others}
    assert judged(project, claim, {"hfedf": [*HFEDF], "fedavg": [*more], **less}).verdict == verdict


@pytest.mark.parametrize(("margin", "verdict"), [(5.0, "confirmed"), (3.0, "undecided"), (0.5, "refuted")])
def test_equal_means_within_a_margin(project: Project, margin: float, verdict: str) -> None:
    """FDSE-C17.1: "comparable to FedBN"."""
    rows = {"A0 B0 C0": "fdse", "item 1:FedBN": "fedbn"}
    ood: dict[str, list[float | None]] = {"fdse": [*HFEDF], "fedbn": [0.57, 0.60, 0.51, 0.55]}
    assert judged(project, "FDSE-C17.1", ood, rows=rows, margin=margin).verdict == verdict


def test_only_the_values_that_are_asked_for_are_paired(project: Project) -> None:
    one = judged(project, "HF-C04.1", {"hfedf": [*HFEDF], "fedavg": [0.50] * 4}, where={"target": "a"})
    assert [(each.mean, each.pairs) for each in one.differences] == [(pytest.approx(11), 2)]


@pytest.mark.parametrize(
    ("name", "claim", "said"),
    [
        ("HF-C04.9", {}, r"unknown claim of reference/claims.csv 'HF-C04.9'"),
        ("HF-C05.1", {"where": {"targt": "a"}}, r"where: unknown axis 'targt'(.|\n)*Did you mean 'target'"),
        ("HF-C06.1", {}, r"HF-C06.1: speaks of 'pFedHN', which is no row(.|\n)*rows:"),
        (
            "FDSE-C09.1",
            {"rows": {"FDSE - align (no adaptation)": "hfedf"}},
            "says that two are equal, but names 3",
        ),
    ],
)
def test_what_cannot_be_judged_is_named(
    project: Project, name: str, claim: dict[str, Any], said: str
) -> None:
    with pytest.raises(FedshiftError, match=said):
        judged(project, name, {"hfedf": [*HFEDF], "fedavg": [*HFEDF]}, **claim)


def test_pages_and_files_show_them(project: Project) -> None:
    ood: dict[str, list[float | None]] = {"hfedf": [*HFEDF], "fedavg": [0.57, 0.60, 0.51, 0.55]}
    found = collected(project, ood, claims={"HF-C04.1": {"metric": "ood"}})
    stem = tables.write(project.workspace, found)
    written = pd.read_csv(stem.with_name("claims.csv"))
    assert written.loc[0, ["claim", "right", "verdict"]].tolist() == ["HF-C04.1", "fedavg", "confirmed"]
    line = "| HF-C04.1 | hfedf > fedavg, ood | +3.3 | confirmed | fedavg +3.0 [+1.7, +4.3], 4 |"
    text = stem.with_suffix(".md").read_text()
    assert line in text
    assert "- Claims: paired differences in points" in text
    assert '<td class="text">fedavg +3.0 [+1.7, +4.3], 4</td>' in stem.with_suffix(".html").read_text()


def test_every_claim_of_the_experiments_can_be_judged() -> None:
    """Rows and relations resolve, before anything is trained."""
    root = REFERENCE.parent
    for path in sorted((root / "experiments").rglob("*.yaml")):
        experiment = load(root, path.relative_to(root / "experiments").with_suffix("").as_posix())
        if experiment.claims:
            keys = ["method", *dict.fromkeys(axis for cell in expand(root, experiment) for axis in cell.axes)]
            runs = pd.DataFrame(
                [{"method": cell.label, **cell.axes, "state": "missing"} for cell in expand(root, experiment)]
            )
            values = runs.assign(id=math.nan, ood=math.nan, all=math.nan, avg=math.nan)
            for name, claim in experiment.claims.items():
                known = Collected(experiment, None, path, keys, runs)  # type: ignore[arg-type]
                assert claims._verdict(root, known, values, name, claim).verdict == "undecided"
