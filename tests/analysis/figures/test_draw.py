"""The drawer: files, values as CSV, looks, and where panels and marks are."""

from typing import Any

import pandas as pd
import pytest

from fedshift.analysis.collect import collect
from fedshift.analysis.figures import draw
from fedshift.analysis.figures.base import BOUNDS, COLUMNS, METHODS, Axis, Plot, table
from fedshift.common.errors import FedshiftError
from fedshift.common.registry import get, own
from fedshift.experiments.load import load
from fedshift.spec.block import params
from tests.analysis.conftest import Project, accuracy


def toy(values: list[dict[str, Any]], x: Axis | None = None, y: Axis | None = None, **about: Any) -> Plot:
    return Plot("Toy", pd.DataFrame(values), x or Axis("x"), y or Axis("y"), **about)


def curves_and_sweep(project: Project) -> list[bytes]:
    """The files of two figures."""
    paths = draw.write(project.workspace, project.collect())
    assert [path.name for path in paths] == [
        f"{figure}.{suffix}" for figure in ("curves", "sweep-clip") for suffix in ("svg", "pdf", "png", "csv")
    ]
    return [path.read_bytes() for path in paths]


def test_the_same_results_give_the_same_files_with_their_values_as_csv(project: Project) -> None:
    runs = {
        ("fedavg", clip, seed): {0: accuracy((0.1, 0.1)), 5: accuracy((0.4 + 0.1 * clip + 0.02 * seed,) * 2)}
        for clip in (1.0, 2.0)
        for seed in (0, 1)
    }
    axes = {"clip": {"key": "local.clip", "values": [1.0, 2.0]}, "seed": [0, 1]}
    shown = {
        "title": "Ca$h & A$$et$",
        "figures": ["curves", {"sweep": {"x": "clip"}}],
    }  # a dollar is a letter
    project.trained(runs, ("clip", "seed"), axes=axes, **shown)
    files = curves_and_sweep(project)
    assert curves_and_sweep(project) == files
    svg, pdf = files[0].decode(), files[1]
    assert "Learning curves. y: in-distribution accuracy (%). x: round." in svg and "Ca$h &amp; A$$et$" in svg
    assert b"/CIDFontType2" in pdf and b"/Type3" not in pdf  # TrueType, which all publishers take
    values = pd.read_csv(project.workspace.figures("toy") / "sweep-clip.csv")
    means = values[values["mark"] == "mean"]
    assert [*values.columns] == COLUMNS
    assert (means["x"].tolist(), means["y"].tolist()) == ([1, 2], [51, 61])
    assert values[values["mark"] == "seed 1"]["y"].tolist() == [52, 62]


def test_an_experiment_without_figures_has_an_empty_folder(project: Project) -> None:
    assert draw.write(project.workspace, project.trained({("fedavg", 0): 0.5}, ("seed",), figures=[])) == []
    assert project.workspace.figures("toy").is_dir()  # which the workflow waits for


def test_small_values_of_few_ticks_are_listed_whole() -> None:
    values = [{"label": "a", "x": x, "y": 1.0} for x in (1e-6, 0.5)]
    assert table(toy(values, Axis("lr", ticks=(1e-6, 0.5))))["x"].tolist() == ["1e-06", "0.5"]


def test_a_method_looks_the_same_whatever_else_is_plotted() -> None:
    placed = [*METHODS, *BOUNDS]
    assert {*placed} <= {*own("methods")}

    def looks(*labels: str) -> dict[str, Any]:
        plot = toy([{"label": name, "x": 0, "y": 0} for name in labels])
        return {name: look[:2] for name, look in plot.looks.items()}

    every = looks(*placed)
    assert len({*every.values()}) == len(every)
    assert looks("hfedf-mine", "photo", "hfedf")["hfedf"] == every["hfedf"]
    assert looks("hfedf-mine", "photo")["hfedf-mine"] == every["hfedf"]  # a variant alone
    assert looks("hfedf-mine", "hfedf")["hfedf-mine"] != every["hfedf"]
    many = looks(*placed, *(f"row-{n}" for n in range(20)))
    assert len({*many.values()}) == len(many) and every.items() <= many.items()


def test_without_results_every_kind_has_a_reason(project: Project) -> None:
    """Claims without runs are named, and every experiment that lists them tests some."""
    kinds = {name: get("figures", name) for name in own("figures") if name != "claims"}
    evaluations = {name: None for kind in kinds.values() for name in kind.evaluations}
    axes = {"target": ["a"], "seed": [0]}
    project.declare(methods={"fedavg": None}, axes=axes, evaluations=[*evaluations])
    project.add("fedavg", None, target="a", seed=0)
    collected = collect(project.workspace, "toy", project.plan(), empty=True)
    for name, kind in kinds.items():
        given = params(kind, {"x": "target"} if name in ("bars", "sweep") else {})
        with pytest.raises(FedshiftError):
            kind(given).plot(project.workspace, collected)


@pytest.mark.parametrize(
    ("name", "given", "error"),
    [
        ("differences", {"to": "fedagv"}, r"figures\.to: unknown row .*'fedagv'"),
        ("differences", {"metric": "odd"}, r"figures\.metric: unknown aggregation"),
        ("differences", {}, "'target' is not an axis"),
        ("ranks", {"against": "fedbn"}, r"figures\.against: unknown row"),
        ("curves", {"rows": "x*"}, r"figures\.rows: unknown trained row"),
        ("curves", {"highlight": ["fed*", "x"]}, r"figures\.highlight: unknown trained row"),
        ("filters", {"row": "fedbn"}, r"figures\.row: unknown trained row"),
        ("tsne", {"at": ["0", "b"]}, r"figures\.at: unknown value of an axis 'b'"),
        ("sweep", {}, r"figures\.x: unknown axis ''"),
        ("bars", {"x": "seed", "panels": "target"}, r"figures\.panels: unknown axis 'target'"),
    ],
)
def test_what_a_figure_cannot_plot_is_refused_when_planned(
    project: Project, name: str, given: dict[str, Any], error: str
) -> None:
    project.declare(methods=dict.fromkeys(["fedavg", "local"]), axes={"seed": [0]})
    figure = get("figures", name)(params(get("figures", name), given))
    with pytest.raises(FedshiftError, match=error):
        figure.check(load(project.workspace, project.name), {"seed": [0]}, "figures")


def test_panels_of_rows_are_below_each_other_where_their_titles_are_the_same() -> None:
    values = [
        {"label": "m", "x": 0.0, "y": 0.0, "row": row, "panel": panel}
        for row, panels in {"one": "abc", "two": "c", "three": "xy"}.items()
        for panel in panels
    ]
    axes = draw.draw(toy(values), None).axes
    assert [panel.get_visible() for panel in axes] == [True] * 3 + [False, False, True] + [True, True, False]
    assert [panel.get_title() for panel in axes if panel.get_visible()] == [*"abc", "", *"xy"]
    assert [panel.get_ylabel() for panel in axes if panel.get_ylabel()] == ["one\ny", "two\ny", "three\ny"]


def test_names_are_in_their_order_and_marks_of_labels_side_by_side() -> None:
    values = [{"label": label, "x": name, "y": 1.0} for label in "ab" for name in ("vgg", "lenet")]
    (axes,) = draw.draw(toy(values, Axis("network", names=["lenet", "vgg", "none"])), None).axes
    assert [text.get_text() for text in axes.get_xticklabels()] == ["lenet", "vgg", "none"]
    a, b = (line.get_xdata() for line in axes.get_lines())
    assert [*a.round(), *b.round()] == [1, 0, 1, 0] and all(a < b)


def test_an_interval_lies_along_the_numbers_and_ends_at_the_limits_with_an_arrow() -> None:
    value = {"label": "m", "x": 0.0, "y": "name", "low": -9.0, "high": 1.0, "style": "square"}
    (axes,) = draw.draw(toy([value], Axis("x", limits=(-2.0, 2.0))), None).axes
    (bar,) = axes.collections
    assert bar.get_segments()[0].tolist() == [[-2, 0], [1, 0]]
    assert [line.get_xdata().tolist() for line in axes.get_lines() if line.get_marker() == "<"] == [[-2]]


def test_only_levels_are_dashed_and_the_legend_has_each_label_once() -> None:
    values = [{"label": label, "x": x, "y": x, "style": "line"} for label in "ab" for x in (0, 1)]
    values += [{"label": "a", "x": None, "y": 0.5, "mark": "published", "style": "level"}]
    figure = draw.draw(toy(values, labels=["b", "a"]), "A title")
    assert [line.get_linestyle() for line in figure.axes[0].get_lines()] == ["-", "-", "--"]
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["b", "a"]
    assert figure.get_suptitle() == "Toy. A title"


def test_a_radars_numbers_lie_above_its_lines_up_to_the_rim() -> None:
    values = [
        {"label": "m", "x": x, "y": y, "style": "marked"} for x, y in (("a", 100), ("b", 80), ("c", 60))
    ]
    (axes,) = draw.draw(toy(values, y=Axis("%", limits=(40, 100)), polar=True), None).axes
    (line,) = (line for line in axes.get_lines() if line.get_label() == "m")
    assert line.get_ydata().tolist() == [100, 80, 60, 100]  # closed
    texts = [text for text in axes.texts if text.get_text()]
    assert [text.get_text() for text in texts] == ["60", "80", "100"]
    assert all(text.get_zorder() > line.get_zorder() for text in texts) and not line.get_clip_on()


def test_a_plot_of_nothing_has_its_axes() -> None:
    empty = Plot("Toy", pd.DataFrame(columns=["label", "x", "y"]), Axis("x"), Axis("y", names=["a"]))
    (axes,) = draw.draw(empty, None).axes
    assert [text.get_text() for text in axes.get_yticklabels()] == ["a"]
    assert pytest.approx(axes.get_ylim()) == (0.6, -0.6)
