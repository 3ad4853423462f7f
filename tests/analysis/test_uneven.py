"""Means over fewer values than beside them are found, and `fedshift plan` says so before anything is trained."""

from fedshift.analysis.cells import marked
from fedshift.analysis.published import AVERAGE

USES = [
    {"method": method, "d": d, "target": target, "seed": 0}
    for method, d, target in [
        *(("fedavg", d, target) for d in (1, 2) for target in ("a", "b")),
        ("central", 2, "a"),
        ("central", 2, "b"),
        ("local", 1, "a"),
        ("local", 2, "b"),
    ]
]


def test_a_row_that_lacks_a_column_is_whole_in_the_others() -> None:
    assert marked(USES, ["d"]) == {("local", 1): "target a of a, b", ("local", 2): "target b of a, b"}


def test_all_that_is_averaged_counts() -> None:
    assert marked(USES, []) == {
        ("central",): "d 2 of 1, 2",
        ("local",): "not all combinations of d and target and seed",
    }


def test_the_average_over_targets_is_a_cell_of_its_own() -> None:
    assert marked(USES, ["target", "d"]) == {
        ("local", AVERAGE, 1): "target a of a, b",
        ("local", AVERAGE, 2): "target b of a, b",
    }
    assert marked([use for use in USES if use["method"] == "fedavg"], ["target"]) == {}
