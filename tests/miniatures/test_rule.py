"""Miniatures have the grid of their experiments, and nothing large is left in them."""

from __future__ import annotations

import pytest

from fedshift.storage.workspace import Workspace
from tests.miniatures import rule
from tests.miniatures.world import world
from tests.workflow.checkout import REPOSITORY

REAL = Workspace(REPOSITORY)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return Workspace(world(tmp_path_factory.mktemp("world") / "project").root)


def test_ends_of_an_axis_stay_and_what_claims_name() -> None:
    declared = {
        "protocol": "p",
        "methods": {"fedavg": None},
        "axes": {
            "epochs": {"key": "local.epochs", "values": [1, 2, 5, 10]},
            "target": "all",
            "seed": [0, 1, 2],
        },
        "claims": {
            "C": {"metric": "id", "rounds": "round 50", "rows": {"A": [{"row": "a", "where": {"epochs": 5}}]}}
        },
    }
    known = {"spec": {"data": {"dataset": "pacs"}}}
    ours = rule.experiment(declared, known, lambda _: ("a", "b", "c"))
    assert {name: axis["values"] for name, axis in ours["axes"].items()} == {
        "epochs": [1, 5, 10], "target": ["a", "c"], "seed": [0, 1],
    }  # fmt: skip
    assert ours["claims"]["C"]["rounds"] == "round 1"


def test_evaluations_are_of_the_small_networks_stages() -> None:
    declared = {
        "methods": {"fedrd": None},
        "axes": {"seed": [0]},
        "evaluations": [
            "tsne",
            {"filters": {"stages": ["stem", "stage4"], "images": 3, "stage": "post_train"}},
        ],
    }
    small = rule.experiment(declared, {"spec": {}}, lambda _: ())["evaluations"]
    assert small == ["tsne", {"filters": {"stages": ["stage1", "stage2"], "images": 3}}]


def test_a_search_keeps_targets_of_the_data_sets_that_are_left() -> None:
    domains = {"pacs": ("photo", "sketch"), "office_home": ("art", "product"), "vlcs": ("caltech", "sun")}
    declared = {
        "protocol": "p",
        "methods": {"fedavg": None},
        "axes": {"data.dataset": [*domains], "target": "all"},
        "tune": {"budget": "grid", "seeds": [7, 8], "axes": {"target": ["photo", "product", "caltech"]}},
    }
    tune = rule.experiment(declared, {"spec": {}}, domains.__getitem__)["tune"]
    assert tune == {"budget": rule.BUDGET, "seeds": [7], "spec": {}, "axes": {"target": ["photo", "caltech"]}}


def test_what_a_printed_table_averages_stays() -> None:
    """Claims about its means compare those over all values: hFedF's Table 5 is of d = 1, 2 and 3."""
    printed = {"axes": {"d": {"key": "partition.params.d", "values": [1, 2, 3]}, "seed": [0]}}
    assert [*rule.averaged({**printed, "tables": {"t": {"printed": ["5"], "columns": ["target"]}}})] == [
        ("d", 1), ("d", 2), ("d", 3)
    ]  # fmt: skip
    for table in ({"columns": ["target"]}, {"printed": ["5"], "columns": ["d"]}):
        assert [*rule.averaged({**printed, "tables": {"t": table}})] == []
