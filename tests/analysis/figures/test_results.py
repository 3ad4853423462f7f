"""Figures of what tables and claims have, and of what methods recorded of their clients."""

import itertools
from typing import Any

import numpy as np
import pytest

from fedshift.analysis.clients import last_recorded
from fedshift.analysis.figures import draw
from fedshift.analysis.figures.bars import Bars
from fedshift.analysis.figures.base import Plot
from fedshift.analysis.figures.claims import Claims
from fedshift.analysis.figures.clients import Clients
from fedshift.analysis.figures.differences import Differences
from fedshift.analysis.figures.draw import svg
from fedshift.analysis.figures.embeddings import Embeddings
from fedshift.analysis.figures.heatmap import Heatmap
from fedshift.analysis.figures.reliability import CURVE, RIGHT, WRONG, Reliability
from fedshift.analysis.figures.weights import Weights
from fedshift.federation.records import BINS, Statistics
from fedshift.spec.block import params
from tests.analysis.conftest import Project, accuracy
from tests.analysis.figures.recording import Numbers, recorded

OOD = {("fedavg", "a"): 0.4, ("fedavg", "b"): 0.6, ("local", "a"): 0.5, ("local", "b"): 0.3}


def means(plot: Plot) -> dict[tuple[str, str], float]:
    values = plot.frame[plot.frame["mark"] == "mean"]
    return {(row["label"], row["x"]): round(row["y"], 6) for row in values.to_dict("records")}


def test_a_bar_for_each_method_and_domain_begins_at_zero(project: Project) -> None:
    """Two seeds, the second 2 points above."""
    found = project.trained({(*at, seed): ood + 0.02 * seed for at, ood in OOD.items() for seed in (0, 1)})
    plot = Bars(params(Bars, {"x": "target"})).plot(project.workspace, found)
    assert means(plot) == {place: 100 * value + 1 for place, value in OOD.items()}
    (axes,) = draw.draw(plot, "A toy").axes
    bars = [bar for container in axes.containers for bar in container]
    assert sorted(bar.get_height() for bar in bars) == pytest.approx([31, 41, 51, 61])
    assert axes.get_ylim()[0] == 0
    ends = sorted((bar.get_x(), bar.get_x() + bar.get_width()) for bar in bars)
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(ends))


def test_a_heat_map_has_each_difference_and_their_mean(project: Project) -> None:
    """Two seeds; `ditto` lacks a domain and so a mean."""
    ood = OOD | {("ditto", "a"): 0.7, ("ditto", "b"): None}
    values = {
        (*at, seed): of and of + 0.02 * seed * (at[0] == "local") for at, of in ood.items() for seed in (0, 1)
    }
    plot = Heatmap(params(Heatmap, {})).plot(project.workspace, project.trained(values))
    gaps = {("ditto", "a"): 30, ("local", "a"): 11, ("local", "b"): -29, ("local", "mean"): -9}
    assert means(plot) == gaps and plot.labels == ["ditto", "local"]
    (axes,) = draw.draw(plot, "A toy").axes
    texts = {text.get_text() for text in axes.texts}
    assert texts == {"+30.0", "+11.0", "-29.0", "-9.0"}
    lower = Heatmap(params(Heatmap, {"metric": "loss.ood"})).plot(project.workspace, project.collect())
    assert plot.note.endswith("blue: better, red: worse") and lower.note.endswith("red: better, blue: worse")


# ---- clients: the accuracy of each, in the round that tables report, under the domain that it holds


def clients(project: Project, **given: Any) -> Plot:
    """Two methods, two clients, two seeds, the second 2 points above; after the first round 0.1."""
    runs = {
        (method, seed): {1: accuracy((0.1, 0.1)), 2: accuracy((first + 0.02 * seed, second + 0.02 * seed))}
        for method, (first, second) in {"fedavg": (0.5, 0.7), "local": (0.6, 0.3)}.items()
        for seed in (0, 1)
    }
    found = project.trained(runs, ("seed",))
    return Clients(params(Clients, given)).plot(project.workspace, found)


def test_each_client_has_its_own_value_under_its_domain(project: Project) -> None:
    plot = clients(project)
    values = {"fedavg": (51.0, 71.0), "local": (61.0, 31.0)}
    assert means(plot) == {(row, f"domain{k}"): of[k] for row, of in values.items() for k in (0, 1)}
    assert plot.note == "rings: single seeds"


def test_a_radar_has_a_closed_line_for_each_method_in_percent_of_the_best(project: Project) -> None:
    plot = clients(project, style="radar", scaled=True)
    assert means(plot)["fedavg", "domain0"] == pytest.approx(100 * 51 / 61)
    assert means(plot)["local", "domain0"] == 100
    (axes,) = draw.draw(plot, "A toy").axes
    assert axes.name == "polar" and all(len(line.get_xdata()) == 3 for line in axes.get_lines())


def test_a_seed_that_lacks_a_held_out_domain_is_left_out(project: Project) -> None:
    places = itertools.product(["fedavg"], (0, 1), "ab")
    values = dict(zip(places, (0.4, 0.6, 0.9, None), strict=True))
    found = project.trained(values, ("seed", "target"))
    plot = Clients(Clients.Params()).plot(project.workspace, found)
    assert means(plot)["fedavg", "domain0"] == pytest.approx(50)


# ---- the figure of differences from a method on each held-out domain

VALUES = {  # on the held-out domains near and far
    "fedavg": (0.50, 0.40),
    "fedbn": (0.45, 0.39),
    "ditto": (0.52, 0.50),
}


def differences(project: Project, seeds: int, without: tuple[str, str, int] | None = None) -> Plot:
    """Each seed beyond the first adds 0.02 to `ditto` on `far` alone, and 0.1 to all methods.

    without: a run that is missing.
    """
    found = {
        (method, target, seed): value + 0.1 * seed + 0.02 * seed * (method == "ditto" and target == "far")
        for method, values in VALUES.items()
        for target, value in zip(("near", "far"), values, strict=True)
        for seed in range(seeds)
    }
    collected = project.trained(found | ({without: None} if without else {}))
    return Differences(Differences.Params()).plot(project.workspace, collected)


def test_a_domain_with_two_seeds_beside_three_has_no_line(project: Project) -> None:
    """It was drawn from the lower to the higher, and noted as a standard deviation."""
    plot = differences(project, 3, without=("ditto", "near", 2))
    values = plot.frame.set_index(["label", "y"])
    assert values.loc[[("near", "ditto")], "low"].isna().all()
    assert values.loc[[("near", "fedbn"), ("far", "ditto")], "low"].notna().all()
    assert plot.note.endswith("; thin line: ± one standard deviation over seeds")


def test_a_method_that_lacks_a_domain_has_no_mean(project: Project) -> None:
    values = differences(project, 1, without=("ditto", "far", 0)).frame.set_index(["label", "y"])
    assert {*values.loc["mean"].index} == {"fedbn"}
    assert {*values.loc["near"].index} == {"ditto", "fedbn"}
    assert values["low"].loc[["near", "far"]].isna().all()  # one seed spans nothing


# ---- the figure of claims: intervals, pairs and printed differences, where they are

ONE = {"HF-C04.1": {"metric": "ood"}}


def of_claims(project: Project, values: dict[tuple[Any, ...], float | None], **declared: Any) -> Plot:
    found = project.trained(values, **{"claims": ONE} | declared)
    return Claims(Claims.Params()).plot(project.workspace, found)


def test_an_interval_that_is_too_long_is_cut_with_an_arrow(project: Project) -> None:
    """Two seeds: +8 and -2 make +3 [-60.5, +66.5], and the axis ends at 1.6 times 8."""
    seeds = {"hfedf": (0.5, 0.5), "fedavg": (0.42, 0.52)}
    values = {(method, "a", seed): of[seed] for method, of in seeds.items() for seed in (0, 1)}
    plot = of_claims(project, values)
    mean = plot.frame[plot.frame["mark"] == "mean"]
    assert mean["style"].tolist() == ["square"] and mean["low"].tolist() == [pytest.approx(-60.5, abs=0.1)]
    (axes,) = draw.draw(plot, "A toy").axes
    assert axes.get_xlim() == pytest.approx((-12.8, 12.8))
    arrows = {line.get_marker(): line.get_xdata() for line in axes.get_lines() if line.get_marker() in "<>"}
    assert (arrows["<"].tolist(), arrows[">"].tolist()) == ([pytest.approx(-12.8)], [pytest.approx(12.8)])


# ---- reliability: samples by confidence, right and wrong, of the reported round and the right sets


def sets(*counts: tuple[int, int, int]) -> Statistics:
    """One set each of (bin, right, wrong): all its samples in one bin, with its middle as confidence."""
    n, right, wrong = np.zeros((len(counts), 2)), np.zeros((len(counts), BINS)), np.zeros((len(counts), BINS))
    for place, (at, rights, wrongs) in enumerate(counts):
        n[place, 0] = rights + wrongs
        right[place, at], wrong[place, at] = rights, wrongs
    return Statistics(n, n * 0, n * 0, wrong, right, (right + wrong) * (np.arange(BINS) + 0.5) / BINS)


def reliability(project: Project) -> Plot:
    """One client and a held-out domain after two rounds; what is reported lies in the bins 19 and 10."""
    project.declare(methods={"fedavg": None}, axes={"target": ["a"], "seed": [0]})
    rounds = {1: accuracy((0.5,), 0.5), 2: accuracy((0.5,), 0.5)}
    counts = sets(*[(0, 1, 1)] * 3, (19, 6, 2), (19, 1, 1), (10, 3, 9))
    project.add("fedavg", rounds, sizes=(10,), statistics=counts, target="a", seed=0)
    return Reliability(Reliability.Params()).plot(project.workspace, project.collect())


def shares(plot: Plot, where: str, label: str) -> dict[float, float]:
    """Bar -> percent of all samples, where it is not 0."""
    frame = plot.frame[(plot.frame["y_axis"] == f"{where}\nsamples (%)") & (plot.frame["label"] == label)]
    return {round(x, 3): round(y, 3) for x, y in zip(frame["x"], frame["y"], strict=True) if y}


def test_right_and_wrong_in_and_out_of_distribution(project: Project) -> None:
    plot = reliability(project)
    inside, outside = "in-distribution", "out-of-distribution"
    assert (shares(plot, inside, RIGHT), shares(plot, inside, WRONG)) == ({0.925: 75.0}, {0.975: 25.0})
    assert (shares(plot, outside, RIGHT), shares(plot, outside, WRONG)) == ({0.525: 25.0}, {0.575: 75.0})
    curve = plot.frame[plot.frame["label"] == CURVE].set_index(["y_axis", "mark"])[["x", "y"]]
    for mark in ("bin", "of few samples"):  # of eight
        assert curve.loc[(f"{inside}\naccuracy (%)", mark)].squeeze().tolist() == pytest.approx([0.975, 75])
    assert (f"{outside}\naccuracy (%)", "of few samples") not in curve.index  # of twelve
    assert [*plot.texts.values()] == ["ECE 22.5%", "ECE 27.5%"]  # 97.5 sure, 75 right


# ---- embeddings of each client

Of = dict[tuple[str, int], Numbers]
EMBEDDINGS: Of = {
    ("a", 0): {1: (0.0, 0.0), 2: (1.0, 3.0)},
    ("a", 1): {1: (0.0, 0.0), 2: (2.0, 4.0)},
    ("b", 0): {1: (0.0, 0.0), 2: (5.0, 9.0)},
    ("b", 1): {1: (0.0, 0.0), 2: (5.0, 7.0)},
}


def test_embeddings_after_the_last_round_are_a_dot_for_each_client_and_seed(project: Project) -> None:
    collected = recorded(project, "embeddings", EMBEDDINGS)
    plot = Embeddings(params(Embeddings, {"at": "end"})).plot(project.workspace, collected)
    found = plot.frame[["panel", "label", "y", "x"]].itertuples(index=False, name=None)
    last = {(target, seed): rounds[2] for (target, seed), rounds in EMBEDDINGS.items()}
    assert {*found} == {
        (f"held out: {target}", f"domain{k}", f"seed {seed}", x)
        for (target, seed), of in last.items()
        for k, x in enumerate(of)
    }
    assert svg(plot).startswith("<?xml")  # columns once had a pivot's names, and stopped the drawer


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("embeddings.spread", [1, 1, 2, 1]),
        ("embeddings.range", [2, 2, 4, 2]),
        ("embeddings.of=domain1", [3, 4, 9, 7]),
        ("embeddings.apart=seed", [1, 1, 1, 1]),  # 1 and 1, 1 and 1; 0 and 2, 0 and 2
        ("embeddings.apart=target", [5, 3, 5, 3]),  # 4 and 6, 3 and 3
    ],
)
def test_numbers_that_claims_are_about(project: Project, text: str, numbers: list[float]) -> None:
    collected = recorded(project, "embeddings", EMBEDDINGS)
    assert last_recorded(project.workspace, collected, text).tolist() == pytest.approx(numbers)


# ---- weights

NOBODY = float("nan")


@pytest.mark.parametrize(("second", "rules"), [((NOBODY, 0.5, 0.5), {"y": [50]}), ((0.2, 0.3, 0.5), {})])
def test_the_rule_is_of_a_rounds_participants(
    project: Project, second: tuple[float, ...], rules: dict[str, list[float]]
) -> None:
    """Of three clients two take part in the first round; where rounds differ in how many, there is none."""
    collected = recorded(project, "gradalign", {("a", 0): {1: (0.5, 0.5, NOBODY), 2: second}})
    plot = Weights(params(Weights, {"at": "rounds"})).plot(project.workspace, collected)
    assert plot.rules == rules
