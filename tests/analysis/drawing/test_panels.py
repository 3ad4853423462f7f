"""Panels: their values as a table, their colours, and their words."""

from __future__ import annotations

from fedshift.analysis.drawing.marks import MARKERS
from fedshift.analysis.drawing.panels import COLOURS, COLUMNS, Axis, Panel, Panels, Row, Series, Spread, table

MEAN = Series("a", "mean", [1.0, 2.0], [50.0, 60.0], spread=Spread([49.0, 58.0], [51.0, 62.0]))
LEVEL = Series("b", "published", [0.0], [55.0], "level")


def panels(*series: Series, x: Axis | None = None, labels: tuple[str, ...] = ("a", "b")) -> Panels:
    panel = Panel([*series], x or Axis("round"), Axis("out-of-distribution\naccuracy (%)"), "held out: ink")
    return Panels("Curves", [Row([panel], "d = 2")], [*labels])


def test_the_table_holds_every_value_with_what_it_is_of() -> None:
    values = table(panels(MEAN, LEVEL)).astype(object).where(lambda cells: cells.notna(), None)
    place, axes = ["d = 2", "held out: ink"], ["round", "out-of-distribution accuracy (%)"]
    assert [*values.columns] == COLUMNS
    assert values.to_numpy().tolist() == [
        [*place, "a", "mean", 1.0, 50.0, 49.0, 51.0, *axes],
        [*place, "a", "mean", 2.0, 60.0, 58.0, 62.0, *axes],
        [*place, "b", "published", None, 55.0, None, None, *axes],  # a level is of no round
    ]


def test_places_that_stand_for_names_are_listed_by_name() -> None:
    assert table(panels(MEAN, x=Axis("network", ticks={1.0: "lenet", 2.0: "vgg"})))["x"].tolist() == [
        "lenet",
        "vgg",
    ]


def test_words_for_who_does_not_see_it() -> None:
    words = "Curves. y: out-of-distribution accuracy (%). x: round. panels: d = 2, held out: ink. lines: a"
    assert panels(MEAN).text == words
    assert panels(MEAN, LEVEL).text == f"{words}; b"


def test_colours_repeat_with_another_mark() -> None:
    several = panels(MEAN, labels=tuple("abcdefghijklmnopqrstuvw"))
    assert [several.colour(label) for label in "ag"] == [COLOURS[0], COLOURS[6]]
    looks = {
        (several.colour(label), MARKERS[several.place(label) % len(MARKERS)]) for label in several.labels
    }
    assert len(looks) == len(several.labels) > len(COLOURS)
    assert len({*MARKERS}) == len(MARKERS)
