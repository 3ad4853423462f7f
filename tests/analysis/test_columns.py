"""Columns besides accuracies: gains, ratios, costs, what it takes to reach a value, settings."""

import json
import math
from typing import Any

import pandas as pd
import pytest

from fedshift.analysis.cells import judged, setting
from fedshift.analysis.collect import collect
from fedshift.analysis.collected import Collected
from fedshift.analysis.layers import layer
from fedshift.common.errors import FedshiftError
from fedshift.experiments.column import column
from fedshift.experiments.expand import expand
from fedshift.experiments.load import load
from fedshift.storage.workspace import Workspace

from .conftest import REFERENCE, Project, accuracy, changed

OOD = {("fedavg", 0): 0.50, ("fedavg", 1): 0.60, ("fedprox", 0): 0.40, ("fedprox", 1): 0.55}
SECONDS = {"fedavg": 2.0, "fedprox": 3.0}
SPEC = {"data": {"dataset": "digits"}, "model": {"name": "digits_cnn"}}


def two_rows(project: Project, table: dict[str, Any], device: str = "cpu", declared: int = 2) -> Collected:
    """FedAvg and FedProx of two seeds, two rounds (of so many declared) of two clients: by the first, ood is
    10 points lower.
    """
    spec = {**SPEC, "federation": {"rounds": declared}}
    rows = {"fedavg": None, "fedprox": None}
    project.declare(methods=rows, axes={"seed": [0, 1]}, spec=spec, tables={"t": table})
    for cell in expand(project.workspace, load(project.workspace, "toy")):
        ood = OOD[cell.label, cell.axes["seed"]]
        rounds = {1: accuracy((0.5, 0.5), ood=ood - 0.1), 2: accuracy((0.5, 0.5), ood=ood)}
        on = device if cell.label == "fedprox" else "cpu"
        run = project.add(cell.label, rounds, spec=cell.spec, device=on, **cell.axes)
        changed(run, costs={"seconds": SECONDS[cell.label], "bytes_up": 8e6, "bytes_down": 16e6}, rounds=2)
    return project.collect()


def one_column(project: Project, metric: str, against: str = "", **keys: Any) -> pd.DataFrame:
    """The cells of one column, by method."""
    cells = project.shown(two_rows(project, {"metrics": [metric], "against": against}, **keys))
    return cells.set_index(cells["method"].astype(str))


def test_gains_and_ratios_are_paired_by_seed(project: Project) -> None:
    """A gain over the other row, which has none over itself; a ratio of this row over the other."""
    cells = one_column(project, "gain.ood", "fedavg")
    assert [*cells.index] == ["fedprox"]
    assert cells["mean"].tolist() == pytest.approx([7.5])  # 10 and 5 points
    assert cells["std"].tolist() == pytest.approx([5 / math.sqrt(2)])
    cells = project.shown(project.collect(), metrics=["ratio.cost.seconds"])
    assert cells["mean"].tolist() == pytest.approx([1.0, 1.5])


@pytest.mark.parametrize(("metric", "compared"), [("cost.seconds", 0), ("cost.up", 2)])
def test_times_on_other_hardware_are_not_compared(project: Project, metric: str, compared: int) -> None:
    cells = one_column(project, f"ratio.{metric}", "fedavg", device="H200")
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
    cells = one_column(project, metric)
    assert cells.loc["fedprox", "mean"] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("metric", "fedavg", "seeds"),
    [
        ("rounds_to.ood=50", 1.5, 2),  # seed 0 in its second round, which has 50 exactly, seed 1 in the first
        ("rounds_to.ood=55", 2.0, 1),
        ("rounds_to.loss.id=1", 1.0, 2),  # lower is better
    ],
)
def test_what_it_takes_to_reach_a_value(project: Project, metric: str, fedavg: float, seeds: int) -> None:
    cells = one_column(project, metric)
    assert cells.loc["fedavg", ["mean", "seeds"]].tolist() == pytest.approx([fedavg, seeds])


def test_of_runs_that_stopped_early_the_rounds_that_they_trained_count(project: Project) -> None:
    assert one_column(project, "cost.up", declared=8).loc["fedavg", "mean"] == pytest.approx(2)


def test_what_is_never_reached_is_missing(project: Project) -> None:
    cells = one_column(project, "rounds_to.loss.id=0.9")
    assert cells["seeds"].tolist() == [0, 0] and cells["planned"].tolist() == [2, 2]


def test_settings_need_no_runs_and_rows_that_lack_one_have_no_cell(project: Project) -> None:
    rows = {"fedavg": None, "fedprox": {"method": {"params": {"mu": 0.25}}}}
    table = {"metrics": ["setting.local.lr", "setting.method.params.mu"]}
    project.declare(methods=rows, axes={"seed": [0, 1]}, train=False, tables={"t": table}, figures=[])
    collected = collect(project.workspace, "toy")
    cells = project.shown(collected)
    lr = json.loads(collected.runs["spec"].iloc[0])["local"]["lr"]
    assert cells[["method", "metric", "mean"]].to_numpy().tolist() == [
        ["fedavg", "setting.local.lr", lr], ["fedprox", "setting.local.lr", lr], ["fedprox", "setting.method.params.mu", 0.25],
    ]  # fmt: skip
    assert cells["std"].isna().all() and cells["seeds"].tolist() == [2, 2, 2]
    assert collected.missing == [] and " 0.25 |" in project.page(collected)


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
        ({"tables": {"t": {"metrics": ["layer.model.1"]}}}, "compared with published ones"),
        ({"tables": {"t": {"metrics": ["cost.up"]}}, "train": False}, "none is trained"),
    ],
)
def test_what_a_table_cannot_be(project: Project, keys: dict[str, Any], message: str) -> None:
    project.declare(methods={"fedavg": None}, axes={"seed": [0]}, **keys)
    with pytest.raises(FedshiftError, match=message):
        expand(project.workspace, load(project.workspace, "toy"))


# ---- layers of declared networks in the words of papers: golden results have each beside the paper's

WORKSPACE = Workspace(REFERENCE.parent)


def spec(name: str) -> str:
    return expand(WORKSPACE, load(WORKSPACE, name))[0].spec.model_dump_json()


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("fdse/tableA5", 12_974_154),
        ("fdse/tableA6", 6_509_034),
        ("hfedf/table7", 928_199),
        ("hfedf/table8", 3 + 100 + 3 * 2_550 + 51 * 928_199),
        ("hfedf/table9", 9_395 + 4_097),
    ],
)
def test_all_parameters_are_in_some_layer(name: str, parameters: int) -> None:
    experiment = load(WORKSPACE, name)
    (table,) = experiment.tables.values()
    places = [column(metric).name for metric in table.metrics]
    of = [layer(WORKSPACE, experiment.paper, table.printed[0], place, spec(name)) for place in places]
    assert sum(one.parameters for one in of) == parameters


def test_a_module_more_moves_all_layers_after_it() -> None:
    """FedAvg's network has a normalisation where FDSE's has it in its block."""
    of = spec("fdse/tableA5")
    second = [layer(WORKSPACE, "FDSE", table, "model.2", of).text for table in ("A5", "A6")]
    assert second[0] != second[1]
    assert layer(WORKSPACE, "FDSE", "A5", "model.10", of) == ("", 0)
    last = layer(WORKSPACE, "FDSE", "A6", "model.9", of).text
    assert last.endswith("Linear(1024, 10)") and last.count("Linear") == 3  # what is left over


def test_a_network_that_a_method_has_not() -> None:
    for part, said in (("block", "makes no blocks"), ("hypernetwork", "has no hypernetwork")):
        with pytest.raises(FedshiftError, match=said):
            layer(WORKSPACE, "FDSE", "A7", f"{part}.1", spec("fdse/tableA5"))


def test_of_few_clients_at_least_one_takes_part(project: Project) -> None:
    """A fifth of two clients is one: it sends all of the 8 MB in two rounds."""
    spec = {**SPEC, "federation": {"rounds": 2, "participation": 0.2}}
    project.declare(
        methods={"fedavg": None}, axes={"seed": [0]}, spec=spec, tables={"t": {"metrics": ["cost.up"]}}
    )
    (cell,) = expand(project.workspace, load(project.workspace, "toy"))
    run = project.add("fedavg", {2: accuracy((0.5, 0.5))}, spec=cell.spec, **cell.axes)
    changed(run, costs={"seconds": 1.0, "bytes_up": 8e6, "bytes_down": 16e6}, rounds=2)
    assert project.shown(project.collect())["mean"].tolist() == pytest.approx([4.0])


def test_layers_are_judged_without_a_run(project: Project) -> None:
    """All nine layers of FDSE's Table A5, in the words of reference/architectures.yaml; another network has others."""
    experiment = load(WORKSPACE, "fdse/tableA5").model_dump(exclude_defaults=True)
    kept = {key: experiment[key] for key in ("paper", "protocol", "spec", "tables", "published", "train")}
    for model, equal in ((None, 9), ("digits_cnn", 0)):
        spec = {**kept["spec"], **({"model": {"name": model}} if model else {})}
        project.declare(
            "fdse/tableA5", **{**kept, "spec": spec}, methods={"fedavg": None}, axes={"seed": [2]}, figures=[]
        )
        (table,) = judged(project.workspace, collect(project.workspace, "fdse/tableA5")).values()
        assert len(table) == 9 and (table["text"] == table["published_text"]).sum() == equal
        assert (table["verdict"] == "consistent").sum() == equal, table["verdict"]
