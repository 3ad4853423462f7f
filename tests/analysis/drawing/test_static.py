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


def test_dollars_are_letters(project: Project) -> None:
    project.declare(
        title="Ca$h & A$$et$", methods={"Ba$$in": {"method": {"name": "fedavg"}}}, axes={"seed": [0]}
    )
    project.add("Ba$$in", {0: accuracy((0.1, 0.1)), 5: accuracy((0.5, 0.5))}, seed=0)
    svg, *_ = static.write(project.workspace, project.collect())
    assert "Ca$h &amp; A$$et$" in svg.read_text() and "Ba$$in" in svg.read_text()


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


def test_text_is_text_in_the_pdf(project: Project) -> None:
    """In TrueType, which all publishers take, not in Type 3."""
    two_seeds(project)
    (pdf,) = (path for path in static.write(project.workspace, project.collect()) if path.suffix == ".pdf")
    content = pdf.read_bytes()
    assert b"/CIDFontType2" in content and b"/Type3" not in content


def test_what_is_dashed_is_published_and_lines_have_marks() -> None:
    """Eight lines for seven colours, one with a published level; a guide of its own colour has no marks."""
    labels = [*"abcdefgh", "guide"]
    lines = [Series(label, "mean", [0, 1, 2], [place, 1, 2]) for place, label in enumerate(labels)]
    panel = Panel([*lines, Series("a", "published", [0], [1.5], "level")], Axis("x"), Axis("y"))
    panels = Panels("Toy", [Row([panel])], labels, colours={"guide": "#000000"}, names="beside")
    drawn = static.draw(panels, "A toy").axes[0].get_lines()
    assert [line.get_linestyle() for line in drawn].count("--") == 1
    marks = {line.get_label(): line.get_marker() for line in drawn if line.get_linestyle() == "-"}
    assert marks.pop("guide") in ("", "None") and len({*marks.values()}) == len(marks) == 8


def test_a_radars_numbers_lie_above_its_lines_up_to_the_rim() -> None:
    x = Axis("client", ticks={0.0: "a", 1.0: "b", 2.0: "c"})
    panel = Panel(
        [Series("m", "mean", [0, 1, 2], [100, 80, 60], "marked")], x, Axis("%", limits=(40, 100)), polar=True
    )
    (axes,) = static.draw(Panels("Toy", [Row([panel])], ["m"], names="beside"), "A toy").axes
    (line,) = (line for line in axes.get_lines() if line.get_label() == "m")
    assert [text.get_text() for text in axes.texts] == ["60", "80", "100"]
    assert all(text.get_zorder() > line.get_zorder() for text in axes.texts) and not line.get_clip_on()


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


def test_a_value_without_an_interval_has_neither_bar_nor_arrow() -> None:
    none = Spread([float("nan")], [float("nan")], "bar", "x")
    panel = Panel([Series("a", "mean", [0.0], [0.0], "square", none)], Axis("x", limits=(-2, 2)), Axis("y"))
    (axes,) = static.draw(Panels("Toy", [Row([panel])], ["a"]), "A toy").axes
    assert "_beyond" not in {line.get_label() for line in axes.get_lines()}


def test_a_figure_has_its_own_title_beside_the_experiments() -> None:
    """Embeddings stood under "weights over rounds", the experiment's title."""
    panel = Panel([Series("a", "mean", [0, 1], [1, 2])], Axis("x"), Axis("y"))
    figure = static.draw(Panels("Client embeddings", [Row([panel])], ["a"]), "Weights")
    assert " ".join(figure.get_suptitle().split()) == "Client embeddings. Weights"
