"""Figures of kept weights and images: what is drawn of known results, and that swapped results show."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedshift.analysis.collection.collected import Collected
from fedshift.analysis.drawing import static
from fedshift.analysis.drawing.panels import Panels, table
from fedshift.analysis.quantities.clients import domains
from fedshift.common.errors import FedshiftError
from fedshift.experiments.figures import figures

from ..conftest import Project, accuracy
from ..evaluating import Rows, evaluate

METHODS = ["fedavg", "fdse"]


def trained(project: Project, evaluations: list[Any], figure: Any) -> Collected:
    """Two methods, two held-out domains, two seeds."""
    axes = {"target": ["b", "a"], "seed": [1, 0]}
    project.declare(methods=dict.fromkeys(METHODS), axes=axes, evaluations=evaluations, figures=[figure])
    for method, target, seed in itertools.product(METHODS, *axes.values()):
        project.add(method, {1: accuracy((0.5, 0.5), ood=0.5)}, target=target, seed=seed)
    return project.collect()


def panels(project: Project, found: Collected) -> Panels:
    (figure,) = figures(found.experiment).values()
    drawn: Panels = figure.panels(project.workspace, found)
    return drawn


def drawn(project: Project, found: Collected) -> dict[str, Any]:
    """Every file of the figure is written, and the page's chart can be made."""
    paths = static.write(project.workspace, found)
    assert {path.suffix for path in paths} == {".svg", ".pdf", ".png", ".csv"}
    return static.svg(panels(project, found))


def image(run: dict[str, Any], client: int, n: int) -> dict[str, Any]:
    """Of method, target and seed a place that tells them apart: the second image that far beside the first."""
    x = 100 * METHODS.index(run["method"]) + 10 * (run["target"] == "a") + run["seed"]
    place = {"client": client, "sample": 10 * client + n, "domain": f"domain{client}"}
    return {**place, "label": n, "class": ["cat", "dog"][n], "x": 5 + n * x / 200, "y": 7.0 + n}


def test_a_map_shows_one_run_of_each_method_by_class_and_by_domain(project: Project) -> None:
    found = trained(project, ["tsne", "distances"], {"tsne": {"at": ["a"]}})
    evaluate(
        project,
        found,
        "tsne",
        "tsne",
        lambda run: [image(run, *at) for at in itertools.product((0, 1), (0, 1))],
    )
    numbers = {"images": 4, "domains": 0.0}
    evaluate(
        project, found, "distances", "distances",
        lambda run: [{**numbers, "inter": 1.0 + (run["method"] == "fdse"), "intra": 0.1 * run["seed"]}],
    )  # fmt: skip
    shown = panels(project, found)
    assert [panel.title for panel in shown.rows[0].panels] == [
        "fedavg\nbetween classes 1.00, within 0.10",
        "fdse\nbetween classes 2.00, within 0.10",
    ]
    assert shown.labels == ["cat", "dog", "domain0", "domain1"] and "held out: a, seed 1" in shown.note
    values = table(shown)
    by_class = values[values["y_axis"] == "coloured by class"]
    assert {*by_class["x"].astype(float).round(6)} == {0.4725, 0.5275, 0.2225, 0.7775} and {
        *by_class["label"]
    } == {
        "cat",
        "dog",
    }
    assert (by_class["label"] == by_class["y"].map({0.0: "cat", 1.0: "dog"})).all()
    by_domain = values[values["y_axis"] == "coloured by domain"]
    assert by_domain.groupby("label").size().to_dict() == {"domain0": 4, "domain1": 4}
    assert drawn(project, found)


def test_similarity_of_each_pair_of_clients(project: Project) -> None:
    """The mean over runs a dot, each run a ring; of two clients' results swapped the dots change places."""
    found = trained(project, ["cka"], "cka")

    def of(run: dict[str, Any], order: tuple[int, int, int]) -> list[dict[str, Any]]:
        values = dict(zip(itertools.combinations(order, 2), (0.2, 0.5, 0.9), strict=True))
        return [
            {"client": min(pair), "other": max(pair), "images": 5, "cka": value + 0.01 * run["seed"]}
            for pair, value in values.items()
        ]

    seen = []
    for order in ((0, 1, 2), (1, 0, 2)):
        evaluate(project, found, "cka", "cka", lambda run, order=order: of(run, order))
        values = table(panels(project, found))
        dots = values[(values["mark"] == "mean") & (values["label"] == "fdse")]
        seen.append(dict(zip(dots["x"], dots["y"].round(3), strict=True)))
        assert (values["mark"] == "run").sum() == 3 * 2 * 4
    assert seen == [{"0–1": 0.205, "0–2": 0.505, "1–2": 0.905}, {"0–1": 0.205, "0–2": 0.905, "1–2": 0.505}]
    assert drawn(project, found)


def test_pairs_of_clients_are_called_by_their_domains(project: Project) -> None:
    """Where each has one; runs that hold out different domains have different clients."""
    found = trained(project, ["cka"], "cka")
    evaluate(project, found, "cka", "cka", lambda run: [{"client": 0, "other": 1, "images": 5, "cka": 0.3}])
    names = domains(found).sort_values("client")["domains"].unique()
    assert {*table(panels(project, found))["x"]} == {"–".join(names)} and len(names) == 2


def test_similarity_of_many_clients_is_a_mean_for_each(project: Project) -> None:
    found = trained(project, ["cka"], "cka")
    pairs = [*itertools.combinations(range(7), 2)]
    evaluate(
        project, found, "cka", "cka",
        lambda run: [{"client": i, "other": j, "images": 5, "cka": 0.1 * (0 in (i, j))} for i, j in pairs],
    )  # fmt: skip
    values = table(panels(project, found))
    dots = values[(values["mark"] == "mean") & (values["label"] == "fdse")].set_index("x")["y"]
    assert [*dots.index] == [*"0123456"] and dots["0"] == pytest.approx(0.1)
    assert dots["6"] == pytest.approx(0.1 / 6)


def test_spread_by_layer(project: Project) -> None:
    """Means over runs with bars to the lowest and the highest; a log scale leaves out who shares all weights."""
    found = trained(project, ["spread"], {"spread": {"scale": "log"}})

    def spread(run: dict[str, Any]) -> list[dict[str, Any]]:
        level = 0.0 if run["method"] == "fedavg" else 1.0 + run["seed"]
        names = ("stages.stage1.conv", "head")
        return [
            {"layer": name, "place": n, "entries": 1, "deviation": n * level}
            for n, name in enumerate(names, 1)
        ]

    evaluate(project, found, "spread", "spread", spread)
    values = table(panels(project, found))
    assert values[["label", "x", "y", "low", "high"]].to_numpy().tolist() == [
        ["fdse", "stage1", 1.5, 1.0, 2.0], ["fdse", "head", 3.0, 2.0, 4.0]
    ]  # fmt: skip
    assert drawn(project, found)


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
    shown = panels(project, found)
    assert [row.panels[0].y.label for row in shown.rows] == ["image", *METHODS]
    assert [panel.title for panel in shown.rows[0].panels] == [
        "class cat",
        "class dog",
    ]  # of two rows no peak is named
    first, second = (panel.picture for panel in shown.rows[0].panels)
    assert first and second and (first.pixels.max(), second.pixels.min()) == (0, 60)
    picture = shown.rows[1].panels[0].picture
    assert picture
    light = picture.pixels.sum(2)
    assert np.unravel_index(light.argmax(), light.shape) in ([(0, 0)] if at == 0 else [(3, 3)])
    shares = table(shown)[lambda values: values["mark"] == "share of image 0"]["y"][:4]
    assert shares.tolist() == pytest.approx([2.8 if place == at else 0.4 for place in range(4)])
    assert drawn(project, found)


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
    (row,) = panels(project, found).rows
    assert [panel.title for panel in row.panels] == [
        f"client {k}: domain{k}\npatches | gradients" for k in (0, 1)
    ]
    for client, panel in enumerate(row.panels):
        assert panel.picture
        levels = panel.picture.pixels[..., 0]
        lines = [[value for value in line if value != 255] for line in levels if (line != 255).any()]
        assert lines == [[10 * client + 100 * f + 1, 10 * client + 100 * f + 2, 128, 128] for f in (0, 1)]
    assert drawn(project, found)


def right(run: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """What evaluations gave of a run: numbers that tell methods, clients, layers, classes and images apart."""
    of = 1 + METHODS.index(run["method"])
    images = [image(run, *at) for at in itertools.product((0, 1), (0, 1))]
    layers = enumerate(("stages.stage1.conv", "head"), 1)
    patch = {
        "layer": "stage1",
        "place": 1,
        "filter": 3,
        "rank": 1,
        "response": 1.0,
        "px": 1,
        "gradient": bytes(3),
    }
    return {
        "tsne": images,
        "distances": [{"images": 4, "domains": 0.0, "inter": 1.0 * of, "intra": 0.1 * of}],
        "spread": [{"layer": name, "place": n, "entries": 1, "deviation": 0.1 * n * of} for n, name in layers],
        "attention": [{**one, "class": "cat"} for one in bright(run, METHODS.index(run["method"]))],
        "filters": [
            {**patch, "client": c, "sample": c, "domain": f"domain{c}", "patch": bytes([10 * c + of] * 3)}
            for c in (0, 1)
        ],
    }  # fmt: skip


def of_the_other(evaluation: str) -> Rows:
    """Each method with the results of the other one: features of another run."""
    other = dict(zip(METHODS, reversed(METHODS), strict=True))
    return lambda run: right({**run, "method": other[run["method"]]})[evaluation]


def exchanged(evaluation: str, *columns: str) -> Rows:
    """The first and the last row of each run with each other's values in these columns."""

    def rows(run: dict[str, Any]) -> list[dict[str, Any]]:
        first, *between, last = right(run)[evaluation]
        turned = [
            one | {column: two[column] for column in columns} for one, two in ((first, last), (last, first))
        ]
        return [turned[0], *between, turned[1]]

    return rows


def shown(project: Project, found: Collected) -> list[list[Any]]:
    """The plotted values, and the pixels of pictures."""
    figure = panels(project, found)
    pixels = [panel.picture.pixels.tobytes() for row in figure.rows for panel in row.panels if panel.picture]
    titles = [panel.title for row in figure.rows for panel in row.panels]
    return [table(figure).astype(str).to_numpy().tolist(), pixels, titles]


@pytest.mark.parametrize(
    ("figure", "evaluation", "wrong"),
    [
        pytest.param("tsne", "tsne", of_the_other("tsne"), id="a map of another run's features"),
        pytest.param("tsne", "tsne", exchanged("tsne", "label", "class"), id="a map with shuffled labels"),
        pytest.param("tsne", "distances", of_the_other("distances"), id="distances of another run"),
        pytest.param("spread", "spread", of_the_other("spread"), id="spread of another run's weights"),
        pytest.param("spread", "spread", exchanged("spread", "deviation"), id="two layers swapped"),
        pytest.param("attention", "attention", of_the_other("attention"), id="attention of another run"),
        pytest.param("attention", "attention", exchanged("attention", "pixels"), id="two images swapped"),
        pytest.param("filters", "filters", exchanged("filters", "patch"), id="two clients' filters swapped"),
        pytest.param("filters", "filters", of_the_other("filters"), id="filters of another run"),
    ],
)
def test_a_planted_error_is_noticed(project: Project, figure: str, evaluation: str, wrong: Rows) -> None:
    """The same values are drawn twice alike, others are not."""
    needed = ["tsne", "distances"] if figure == "tsne" else [figure]
    found, seen = trained(project, needed, figure), []
    for planted in (False, False, True):
        for name in needed:
            rows = wrong if planted and name == evaluation else lambda run, name=name: right(run)[name]
            evaluate(project, found, name, name, rows)
        seen.append(shown(project, found))
    assert seen[0] == seen[1] != seen[2]


def test_nothing_to_draw_is_said(project: Project, tmp_path: Path) -> None:
    found = trained(project, ["cka"], "cka")
    with pytest.raises(FedshiftError, match="its runs have not been evaluated so"):
        panels(project, found)
    evaluate(project, found, "cka", "cka", lambda run: [])
    with pytest.raises(FedshiftError, match="no finished run has a result of the evaluation 'cka'"):
        panels(project, found)
