"""Figures of kept weights and images: what is drawn of known results, and that swapped results show."""

import itertools
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fedshift.analysis.clients import domains
from fedshift.analysis.collected import Collected
from fedshift.analysis.figures import draw
from fedshift.analysis.figures.base import Plot, plots
from fedshift.analysis.figures.cka import _pairs
from fedshift.experiments.validate import figures

from ..conftest import Project
from ..evaluating import evaluate

METHODS = ["fedavg", "fdse"]


def trained(project: Project, evaluations: list[Any], *listed: Any) -> Collected:
    """Two methods, two held-out domains, two seeds."""
    places = itertools.product(METHODS, "ba", (1, 0))
    return project.trained(dict.fromkeys(places, 0.5), evaluations=evaluations, figures=[*listed])


def plotted(project: Project, found: Collected) -> Plot:
    """The figure, which can be written."""
    (figure,) = figures(found.experiment).values()
    plot: Plot = figure.plot(project.workspace, found)
    assert {path.suffix for path in draw.write(project.workspace, found)} == {".svg", ".pdf", ".png", ".csv"}
    return plot


def image(run: dict[str, Any], client: int, n: int) -> dict[str, Any]:
    """Of method, target and seed a place that tells them apart: the second image that far beside the first."""
    x = 100 * METHODS.index(run["method"]) + 10 * (run["target"] == "a") + run["seed"]
    place = {"client": client, "sample": 10 * client + n, "domain": f"domain{client}"}
    return {**place, "label": n, "class": ["cat", "dog"][n], "x": 5 + n * x / 200, "y": 7.0 + n}


def test_a_map_shows_one_run_of_each_method_by_class_and_by_domain(project: Project) -> None:
    found = trained(project, ["tsne", "distances"], {"tsne": {"at": ["a"]}})
    places = [*itertools.product((0, 1), (0, 1))]
    evaluate(project, found, "tsne", "tsne", lambda run: [image(run, *at) for at in places])

    def distances(run: dict[str, Any]) -> list[dict[str, Any]]:
        means = {"inter": 1.0 + (run["method"] == "fdse"), "intra": 0.1 * run["seed"]}
        return [{"images": 4, "domains": 0.0, **means}]

    evaluate(project, found, "distances", "distances", distances)
    shown = plotted(project, found)
    assert [*shown.frame["panel"].unique()] == [
        "fedavg\nbetween classes 1.00, within 0.10",
        "fdse\nbetween classes 2.00, within 0.10",
    ]
    assert shown.labels == ["cat", "dog", "domain0", "domain1"] and "held out: a, seed 1" in shown.note
    values = shown.frame
    by_class = values[values["y_axis"] == "coloured\nby class"]
    assert {*by_class["x"].astype(float).round(6)} == {0.4725, 0.5275, 0.2225, 0.7775}
    assert {*by_class["label"]} == {"cat", "dog"}
    assert (by_class["label"] == by_class["y"].map({0.0: "cat", 1.0: "dog"})).all()
    by_domain = values[values["y_axis"] == "coloured\nby domain"]
    assert by_domain.groupby("label").size().to_dict() == {"domain0": 4, "domain1": 4}


def test_similarity_of_each_pair_of_clients(project: Project) -> None:
    """The mean over runs a dot, each run a ring; of two clients' results swapped the dots change places."""
    found = trained(project, ["cka"], "cka")

    def of(run: dict[str, Any], order: tuple[int, int, int]) -> list[dict[str, Any]]:
        values = dict(zip(itertools.combinations(order, 2), (0.2, 0.5, 0.9), strict=True))
        return [
            {"client": min(of), "other": max(of), "images": 5, "cka": value + 0.01 * run["seed"]}
            for of, value in values.items()
        ]

    found_names = domains(found).sort_values("client")["domains"].unique()
    pair = [{"client": 0, "other": 1, "images": 5, "cka": 0.3}]
    evaluate(project, found, "cka", "cka", lambda run: pair)  # called by their domains, where each has one
    assert {*plotted(project, found).frame["x"]} == {"–".join(found_names)} and len(found_names) == 2
    names = pd.DataFrame({"first": ["b", "a"], "second": ["a", "b"], "client": [0, 1], "other": [1, 0]})
    assert {*_pairs(names)["x"]} == {"a–b"}  # whichever client has a domain
    seen = []
    for order in ((0, 1, 2), (1, 0, 2)):
        evaluate(project, found, "cka", "cka", lambda run, order=order: of(run, order))
        values = plotted(project, found).frame
        dots = values[(values["mark"] == "mean") & (values["label"] == "fdse")]
        seen.append(dict(zip(dots["x"], dots["y"].round(3), strict=True)))
        assert (values["mark"] == "run").sum() == 3 * 2 * 4
    assert seen == [{"0–1": 0.205, "0–2": 0.505, "1–2": 0.905}, {"0–1": 0.205, "0–2": 0.905, "1–2": 0.505}]


def test_similarity_of_many_clients_is_a_mean_for_each(project: Project) -> None:
    found = trained(project, ["cka"], "cka")
    pairs = [*itertools.combinations(range(7), 2)]

    def of(run: dict[str, Any]) -> list[dict[str, Any]]:
        return [{"client": i, "other": j, "images": 5, "cka": 0.1 * (0 in (i, j))} for i, j in pairs]

    evaluate(project, found, "cka", "cka", of)
    values = plotted(project, found).frame
    dots = values[(values["mark"] == "mean") & (values["label"] == "fdse")].set_index("x")["y"]
    assert [*dots.index] == [*"0123456"] and dots["0"] == pytest.approx(0.1)
    assert dots["6"] == pytest.approx(0.1 / 6)


def test_spread_by_layer(project: Project) -> None:
    """Means over runs with bars to the lowest and the highest."""
    found = trained(project, ["spread"], "spread")

    def spread(run: dict[str, Any]) -> list[dict[str, Any]]:
        level = 0.0 if run["method"] == "fedavg" else 1.0 + run["seed"]
        names = enumerate(("stages.stage1.conv", "head"), 1)
        return [{"layer": name, "place": n, "entries": 1, "deviation": n * level} for n, name in names]

    evaluate(project, found, "spread", "spread", spread)
    values = plotted(project, found).frame
    assert values[["label", "x", "y", "low", "high"]].to_numpy().tolist() == [
        ["fedavg", "stage1", 0.0, 0.0, 0.0], ["fedavg", "head", 0.0, 0.0, 0.0],
        ["fdse", "stage1", 1.5, 1.0, 2.0], ["fdse", "head", 3.0, 2.0, 4.0]
    ]  # fmt: skip


def bright(run: dict[str, Any], at: int) -> list[dict[str, Any]]:
    """Two images of 4 px with a map of 2 x 2 whose highest score is at `at`."""
    scores = [0.1] * 4
    scores[at] = 0.7
    return [
        {
            "client": -1, "sample": n, "domain": "a", "label": n, "class": ["cat", "dog"][n], "side": 2, "px": 4,
            "scores": scores, "pixels": bytes([60 * n] * 48),
        }
        for n in (0, 1)
    ]  # fmt: skip


@pytest.mark.parametrize("at", [0, 3])
def test_maps_stand_below_their_images_and_are_bright_where_the_score_is(project: Project, at: int) -> None:
    found = trained(project, ["attention"], "attention")
    evaluate(project, found, "attention", "attention", lambda run: bright(run, at))
    shown = plotted(project, found)
    images = [f"{name}, image {n}" for n, name in enumerate(("cat", "dog"))]
    places = [("", row, panel) for row in ("image", *METHODS) for panel in images]
    assert sorted(shown.pictures) == sorted(places)
    first, second = (shown.pictures["", "image", panel] for panel in images)
    assert (first.max(), second.min()) == (0, 60)
    light = shown.pictures["", "fedavg", images[0]].astype(int).sum(2)
    assert np.unravel_index(light.argmax(), light.shape) in ([(0, 0)] if at == 0 else [(3, 3)])
    frame = shown.frame[(shown.frame["y_axis"] == "fdse") & (shown.frame["panel"] == images[0])]
    assert frame["y"].tolist() == pytest.approx([2.8 if place == at else 0.4 for place in range(4)])


def test_patches_stand_in_the_line_of_their_filter_before_their_gradients(project: Project) -> None:
    """Two clients, one stage, two filters with two patches each: client c, filter f, rank r have level 10 c + 100 f + r."""
    found = trained(project, ["filters"], {"filters": {"row": "fdse"}})

    def patches(run: dict[str, Any]) -> list[dict[str, Any]]:
        return [
            {
                "client": c, "layer": "stage1", "place": 1, "filter": f, "rank": r, "sample": r, "domain": f"domain{c}",
                "response": float(-r), "px": 1, "patch": bytes([10 * c + 100 * f + r] * 3), "gradient": bytes([128] * 3),
            }
            for c, f, r in itertools.product((0, 1), (0, 1), (2, 1))
        ]  # fmt: skip

    evaluate(project, found, "filters", "filters", patches)
    shown = plotted(project, found)
    for client, (place, picture) in enumerate(sorted(shown.pictures.items())):
        assert place[2] == f"client {client}: domain{client}\npatches | gradients"
        lines = [[value for value in line if value != 255] for line in picture[..., 0] if (line != 255).any()]
        assert lines == [[10 * client + 100 * f + 1, 10 * client + 100 * f + 2, 128, 128] for f in (0, 1)]


def test_a_figure_that_cannot_be_plotted_is_named_and_takes_no_other_with_it(project: Project) -> None:
    found = trained(project, ["cka"], "cka", "curves")
    possible, impossible = plots(project.workspace, found)
    assert [*possible] == ["curves"]
    assert "its runs have not been evaluated so" in str(impossible["cka"])
