"""Miniatures have the grid of their experiments, and nothing large is left in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedshift.experiments.expand import expand
from fedshift.experiments.load import available, load
from fedshift.experiments.schema import Experiment
from fedshift.storage.workspace import Workspace
from tests.miniatures import rule
from tests.miniatures.world import world
from tests.workflow.checkout import REPOSITORY

REAL = Workspace(REPOSITORY)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return Workspace(world(tmp_path_factory.mktemp("world") / "project").root)


def values(experiment: Experiment) -> dict[str, list]:
    """Axis -> its values, `all` as it stands."""
    return {
        name: [axis.values] if axis.values == "all" else axis.values for name, axis in experiment.axes.items()
    }


@pytest.mark.parametrize("name", available(REAL))
def test_the_grid_stays(small: Workspace, name: str) -> None:
    ours, theirs = load(small, name), load(REAL, name)
    assert list(ours.methods) == list(theirs.methods)
    assert ours.tables == theirs.tables and ours.figures == theirs.figures and ours.adapt == theirs.adapt
    assert ours.published == theirs.published and list(ours.claims) == list(theirs.claims)
    fewer, every = values(ours), values(theirs)
    assert list(fewer) == list(every)
    for axis in fewer:
        assert len(fewer[axis]) >= min(2, len(every[axis]))
        if every[axis] != ["all"] and fewer[axis] != ["all"]:
            assert set(map(str, fewer[axis])) <= set(map(str, every[axis]))


@pytest.mark.parametrize("name", available(REAL))
def test_every_run_is_small(small: Workspace, name: str) -> None:
    experiment = load(small, name)
    stages = [experiment, *([load(small, f"{name}.tuning")] if experiment.tune else [])]
    cells = [cell for stage in stages for cell in expand(small, stage)]
    assert cells
    for cell in cells if experiment.train else ():
        spec = cell.spec
        assert spec.federation.rounds == rule.SMALL["federation.rounds"] and spec.data.input_px == 32
        assert spec.model.init == "scratch" and spec.partition.split == "random"
        assert spec.partition.target_split != "test" and spec.method.params.get("space") != "encoder"
        if "model.name" not in [axis.key for axis in experiment.axes.values()]:
            assert spec.model.name == "digits_cnn"
    assert len({cell.spec.seed for cell in expand(small, experiment)}) <= rule.SEEDS


def test_what_trains_nothing_shows_what_the_papers_network_is(small: Workspace) -> None:
    for name in ("fdse/tableA5", "hfedf/table7"):
        (ours, theirs) = (expand(workspace, load(workspace, name))[0].spec for workspace in (small, REAL))
        assert (ours.model, ours.data.input_px) == (theirs.model, theirs.data.input_px)


def test_small_values_take_the_place_of_those_that_are_set() -> None:
    part = {"local": {"epochs": 5, "lr": 0.1}, "model": {"name": "resnet18", "init": "imagenet"}}
    small = {"local": {"epochs": 1, "lr": 0.1}, "model": {"name": "digits_cnn", "init": "scratch"}}
    assert rule.small(part) == small


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
        "expect": {"id": 2},
    }
    known = {"spec": {"data": {"dataset": "pacs"}}}
    ours = rule.experiment(declared, known, lambda _: ("a", "b", "c"))
    assert {name: axis["values"] for name, axis in ours["axes"].items()} == {
        "epochs": [1, 5, 10], "target": ["a", "c"], "seed": [0, 1],
    }  # fmt: skip
    assert ours["claims"]["C"]["rounds"] == "round 1" and "expect" not in ours


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


def test_the_world_lies_where_it_is_made(small: Workspace) -> None:
    assert small.root != REPOSITORY and not list(small.reference.glob("datasets/*"))
    assert (small.root / "src/fedshift/data/datasets/_digits.py").is_file()
    assert (Path(small.root) / "reference/presets/ccst.yaml").is_file()


def test_what_a_printed_table_averages_stays() -> None:
    """Claims about its means compare those over all values: hFedF's Table 5 is of d = 1, 2 and 3."""
    printed = {"axes": {"d": {"key": "partition.params.d", "values": [1, 2, 3]}, "seed": [0]}}
    assert [*rule.averaged({**printed, "tables": {"t": {"printed": ["5"], "columns": ["target"]}}})] == [
        ("d", 1), ("d", 2), ("d", 3)
    ]  # fmt: skip
    for table in ({"columns": ["target"]}, {"printed": ["5"], "columns": ["d"]}):
        assert [*rule.averaged({**printed, "tables": {"t": table}})] == []


def test_each_column_of_printed_gains_stays(small: Workspace) -> None:
    """Claims HF-C37.4 to HF-C37.6 are about Office-Home, between PACS and VLCS."""
    assert values(load(small, "hfedf/table5"))["data.dataset"] == ["pacs", "office_home", "vlcs"]
