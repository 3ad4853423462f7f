"""Figures as files: formats, names, values, and that the same results give the same bytes."""

from __future__ import annotations

import pandas as pd
import pytest

from fedshift.analysis.drawing import static
from fedshift.analysis.drawing.panels import COLUMNS, Axis, Panel, Panels, Row, Series, Spread
from tests.analysis.conftest import Project, accuracy


def two_seeds(project: Project, **keys: object) -> None:
    project.declare(
        methods={"fedavg": None},
        axes={"clip": {"key": "local.clip", "values": [1.0, 2.0]}, "seed": [0, 1]},
        **keys,
    )
    for clip in (1.0, 2.0):
        for seed in (0, 1):
            value = 0.4 + 0.1 * clip + 0.02 * seed
            project.add(
                "fedavg", {0: accuracy((0.1, 0.1)), 5: accuracy((value, value))}, clip=clip, seed=seed
            )


def test_the_same_results_give_the_same_files(project: Project) -> None:
    two_seeds(project, figures=["curves", {"sweep": {"x": "clip"}}])
    collected = project.collect()
    paths = static.write(project.workspace, collected)
    assert [path.name for path in paths] == [
        *(f"curves.{suffix}" for suffix in ("svg", "pdf", "png", "csv")),
        *(f"sweep-clip.{suffix}" for suffix in ("svg", "pdf", "png", "csv")),
    ]
    first = [path.read_bytes() for path in paths]
    assert [path.read_bytes() for path in static.write(project.workspace, collected)] == first


def test_values_lie_beside_the_picture(project: Project) -> None:
    two_seeds(project, figures=[{"sweep": {"x": "clip"}}])
    *_, path = static.write(project.workspace, project.collect())
    values = pd.read_csv(path)
    assert [*values.columns] == COLUMNS
    means = values[values["mark"] == "mean"]
    assert (means["x"].tolist(), means["y"].tolist()) == ([1, 2], [51, 61])
    assert values[values["mark"] == "seed 1"]["y"].tolist() == [52, 62]
    assert {*values["y_axis"]} == {"in-distribution accuracy (%)"}


def test_the_picture_says_in_words_what_it_shows(project: Project) -> None:
    two_seeds(project)
    svg, *_ = static.write(project.workspace, project.collect())
    assert "Learning curves. y: in-distribution accuracy (%). x: round." in svg.read_text()


def test_an_experiment_without_figures_has_an_empty_folder(project: Project) -> None:
    two_seeds(project, figures=[])
    assert static.write(project.workspace, project.collect()) == []
    assert project.workspace.figures("toy").is_dir()  # which the workflow waits for


def test_lines_that_the_last_panel_lacks_are_named_where_they_are() -> None:
    left = Panel(
        [Series("a", "mean", [0, 1], [1, 2]), Series("b", "mean", [0, 1], [2, 3])], Axis("x"), Axis("y")
    )
    right = Panel([Series("a", "mean", [0, 1], [1, 2])], Axis("x"), Axis("y"))
    first, last = static.draw(Panels("Toy", [Row([left, right])], ["a", "b"]), "A toy").axes
    assert [text.get_text() for text in first.get_legend().get_texts()] == ["b"]
    assert [text.get_text() for text in last.texts] == ["a"]


def test_a_name_is_joined_to_the_end_of_its_line() -> None:
    """Not to what stands above or below it at the panel's edge."""
    short, long = Series("a", "mean", [0, 1], [1, 2]), Series("b", "mean", [0, 2], [2, 3])
    panel = Panel([short, long], Axis("x"), Axis("y"))
    (axes,) = static.draw(Panels("Toy", [Row([panel])], ["a", "b"]), "A toy").axes
    assert {text.get_text(): text.xy for text in axes.texts} == {"a": (1, 2), "b": (2, 3)}  # type: ignore[attr-defined]


def test_a_bar_beyond_the_limits_ends_there_with_an_arrow() -> None:
    spread = Spread([-9.0], [1.0], "bar", "x")
    series = Series("a", "mean", [0.0], [0.0], "square", spread)
    panel = Panel([series], Axis("x", limits=(-2.0, 2.0)), Axis("y"))
    (axes,) = static.draw(Panels("Toy", [Row([panel])], ["a"]), "A toy").axes
    lines = {line.get_label(): line for line in axes.get_lines()}
    assert lines["_interval"].get_xdata().tolist() == [-2.0, 1.0]
    assert lines["_beyond"].get_marker() == "<"
    assert lines["_beyond"].get_xdata()[0] == pytest.approx(-2.0)
