"""Columns besides accuracies: gains, ratios, costs, what it takes to reach a value, settings."""

import json
import math
from typing import Any

import pandas as pd
import pytest

from fedshift.analysis import tables
from fedshift.analysis.cells import setting
from fedshift.analysis.collect import collect
from fedshift.analysis.collected import Collected
from fedshift.common.errors import FedshiftError
from fedshift.common.files import write_json
from fedshift.experiments.expand import expand
from fedshift.experiments.load import load

from .conftest import Project, accuracy

OOD = {("fedavg", 0): 0.50, ("fedavg", 1): 0.60, ("fedprox", 0): 0.40, ("fedprox", 1): 0.55}
SECONDS = {"fedavg": 2.0, "fedprox": 3.0}


def two_rows(project: Project, table: dict[str, Any], device: str = "cpu", declared: int = 2) -> Collected:
    """FedAvg and FedProx of two seeds, two rounds (of so many declared) of two clients: by the first, ood is
    10 points lower.
    """
    project.declare(
        methods={"fedavg": None, "fedprox": None},
        axes={"seed": [0, 1]},
        spec={
            "federation": {"rounds": declared},
            "data": {"dataset": "digits"},
            "model": {"name": "digits_cnn"},
        },
        tables={"t": table},
    )
    for cell in expand(project.workspace, load(project.workspace, "toy")):
        ood = OOD[cell.label, cell.axes["seed"]]
        rounds = {1: accuracy((0.5, 0.5), ood=ood - 0.1), 2: accuracy((0.5, 0.5), ood=ood)}
        on = device if cell.label == "fedprox" else "cpu"
        directory = project.add(cell.label, rounds, spec=cell.spec, device=on, **cell.axes)
        summary = json.loads((directory / "summary.json").read_text())
        summary["costs"] |= {"seconds": SECONDS[cell.label], "bytes_up": 8e6, "bytes_down": 16e6}
        write_json(directory / "summary.json", {**summary, "rounds": 2})
    return project.collect()


def column(project: Project, metric: str, against: str = "", **keys: Any) -> pd.DataFrame:
    """The cells of one column, by method."""
    collected = two_rows(project, {"metrics": [metric], "against": against}, **keys)
    cells = tables.cells(project.workspace, collected, collected.experiment.tables["t"])
    return cells.set_index(cells["method"].astype(str))


def test_a_gain_is_paired_by_seed_and_nothing_over_itself(project: Project) -> None:
    cells = column(project, "gain.ood", "fedavg")
    assert [*cells.index] == ["fedprox"]
    assert cells["mean"].tolist() == pytest.approx([7.5])  # 10 and 5 points
    assert cells["std"].tolist() == pytest.approx([5 / math.sqrt(2)])


def test_a_ratio_is_of_this_row_over_the_other(project: Project) -> None:
    cells = column(project, "ratio.cost.seconds", "fedavg")
    assert cells["mean"].to_dict() == pytest.approx({"fedavg": 1.0, "fedprox": 1.5})


@pytest.mark.parametrize(
    ("metric", "compared"), [("cost.seconds", 0), ("seconds_to.ood=30", 0), ("cost.up", 2)]
)
def test_times_on_other_hardware_are_not_compared(project: Project, metric: str, compared: int) -> None:
    cells = column(project, f"ratio.{metric}", "fedavg", device="H200")
    assert cells["seeds"].to_dict() == {"fedavg": 2, "fedprox": compared}


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        ("cost.up", 2.0),  # 8 MB in two rounds of two clients
        ("cost.down", 4.0),
        ("cost.seconds", 3.0),
        ("cost.memory", 90.0),
        ("cost.parameters", 0.061514),
        ("cost.macs", 3.391936 + 3 * 64e-6),  # tests/models/test_counts.py has 7 classes
    ],
)
def test_costs(project: Project, metric: str, expected: float) -> None:
    cells = column(project, metric)
    assert cells.loc["fedprox", "mean"] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("metric", "fedavg", "seeds"),
    [
        ("rounds_to.ood=50", 1.5, 2),  # seed 0 in its second round, which has 50 exactly, seed 1 in the first
        ("rounds_to.ood=55", 2.0, 1),
        ("bytes_to.ood=50", 18.0, 2),
        ("seconds_to.ood=50", 1.5, 2),
        ("rounds_to.loss.id=1", 1.0, 2),  # lower is better
    ],
)
def test_what_it_takes_to_reach_a_value(project: Project, metric: str, fedavg: float, seeds: int) -> None:
    cells = column(project, metric)
    assert cells.loc["fedavg", ["mean", "seeds"]].tolist() == pytest.approx([fedavg, seeds])


@pytest.mark.parametrize(
    ("metric", "fedavg"), [("cost.up", 2.0), ("bytes_to.ood=50", 18.0), ("seconds_to.ood=50", 1.5)]
)
def test_of_runs_that_stopped_early_the_rounds_that_they_trained_count(
    project: Project, metric: str, fedavg: float
) -> None:
    assert column(project, metric, declared=8).loc["fedavg", "mean"] == pytest.approx(fedavg)


def test_what_is_never_reached_is_missing(project: Project) -> None:
    cells = column(project, "rounds_to.loss.id=0.9")
    assert cells["seeds"].tolist() == [0, 0] and cells["planned"].tolist() == [2, 2]


def test_settings_need_no_runs_and_rows_that_lack_one_have_no_cell(project: Project) -> None:
    project.declare(
        methods={"fedavg": None, "fedprox": {"method": {"params": {"mu": 0.25}}}},
        axes={"seed": [0, 1]},
        train=False,
        tables={"t": {"metrics": ["setting.local.lr", "setting.method.params.mu"]}},
        figures=[],
    )
    collected = collect(project.workspace, "toy")
    assert collected.missing == []
    cells = tables.cells(project.workspace, collected, collected.experiment.tables["t"])
    found = {(cell["method"], cell["metric"]): cell["mean"] for cell in cells.to_dict("records")}
    lr = collected.runs["spec"].map(lambda text: json.loads(text)["local"]["lr"]).iloc[0]
    assert found == {
        ("fedavg", "setting.local.lr"): lr,
        ("fedprox", "setting.local.lr"): lr,
        ("fedprox", "setting.method.params.mu"): 0.25,
    }
    assert cells["std"].isna().all() and cells["seeds"].tolist() == [2, 2, 2]
    text = tables.write(project.workspace, collected).with_suffix(".md").read_text()
    assert " 0.25 |" in text and "not finished" not in text


def test_a_standard_value_is_a_setting_too_and_a_word_is_none(project: Project) -> None:
    project.declare(methods={"fedprox": None}, axes={"seed": [0]}, tables={})
    (cell,) = expand(project.workspace, load(project.workspace, "toy"))
    text = cell.spec.model_dump_json()
    assert setting(text, "method.params.mu") > 0 and "mu" not in cell.spec.method.params
    assert all(math.isnan(setting(text, key)) for key in ("method.name", "method.params.lr", "seed.x"))


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"tables": {"t": {"metrics": ["gain.ood"]}}}, "belong together"),
        ({"tables": {"t": {"metrics": ["ood"], "against": "fedavg"}}}, "belong together"),
        ({"tables": {"t": {"metrics": ["gain.ood"], "against": "fedavq"}}}, "Did you mean 'fedavg'"),
        ({"tables": {"t": {"metrics": ["layer.model.1"]}}}, "stand beside those that a paper prints"),
        ({"tables": {"t": {"metrics": ["cost.up"]}}, "train": False}, "none is trained"),
    ],
)
def test_what_a_table_cannot_be(project: Project, keys: dict[str, Any], message: str) -> None:
    project.declare(methods={"fedavg": None}, axes={"seed": [0]}, **keys)
    with pytest.raises(FedshiftError, match=message):
        expand(project.workspace, load(project.workspace, "toy"))
