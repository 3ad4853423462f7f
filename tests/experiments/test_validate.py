"""What a declaration may say, and what is refused when it is planned: names, axes, columns, figures."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from fedshift.analysis import tables
from fedshift.analysis.collect import collect
from fedshift.common.errors import FedshiftError
from fedshift.experiments.column import Column, column
from fedshift.experiments.expand import Cell, expand
from fedshift.experiments.load import load
from fedshift.experiments.paper_claims import compared, paper_claim
from fedshift.experiments.schema import Claim
from fedshift.experiments.validate import figures
from fedshift.storage.workspace import Workspace
from tests.conftest import ROOT
from tests.verbs import fedshift, refused

THREE: dict[str, Any] = {
    "title": "Tiny",
    "protocol": "digits",
    "methods": {"fedavg": None, "fedprox": None, "hfedf": None},
    "axes": {"target": ["plain", "ink"], "seed": [0, 1]},
}
BOTH = {"FedAvg": {"row": "fedavg", "range": ["fedprox"], "peak": ["fedprox"]}}


def plan(root: Path, **keys: Any) -> Any:
    (root / "experiments" / "tiny.yaml").write_text(yaml.safe_dump({**THREE, **keys}, sort_keys=False))
    return fedshift(root, "plan", "tiny")


@pytest.mark.parametrize(
    ("keys", "place", "hint"),
    [
        ({"only": {"fedprox": {"sed": [0]}}}, "only.fedprox", "'seed'"),
        ({"only": {"fedprox": {"seed": []}}}, "only.fedprox.seed", "no value"),
        ({"tables": {"t": {"columns": ["seed", "seed"]}}}, "tables.t.columns", "twice"),
        ({"tables": {"t": {"select": ["held_out"]}}}, "tables.t.select", "hold out two"),
        ({"published": {"*": "x/{targt}"}}, "published.*", "'target'"),
        ({"published": {"*": "x/{target"}}, "published.*", "'x/{target'"),
        ({"published": {"*": "pacs/cnn23/lodo/d1/{method}/default/{target}"}}, "published.*", "'pacs/cnn32/lodo/d1/"),
        ({"paper": "hFedG"}, "paper", "'hFedF'"),
        ({"tables": {"t": {"printed": ["2"]}}}, "tables.t.printed", "`paper:`"),
        ({"claims": {"HF-C04.111": {"metric": "ood"}}}, "claims.HF-C04.111", "'HF-C04.1"),
        ({"claims": {"HF-C04.1": {"metric": "ood", "rows": {"FedAgv": "fedavg"}}}}, "claims.HF-C04.1.rows", "'FedAvg'"),
        ({"claims": {"HF-C04.1": {"metric": "ood"}}, "methods": {"hfedf": None}}, "claims.HF-C04.1", "rows: {'FedAvg': <row>}"),
        ({"claims": {"HF-C04.1": {"metric": "ood", "rows": BOTH}}}, "claims.HF-C04.1.rows.FedAvg", "both `range` and `peak`"),
        ({"axes": {"target": [2020, 2021]}}, "'data.target'", "in quotes"),
        ({"spec": {"seed": 5}}, "spec.seed", "Leave one of the two out"),
        ({"methods": {}}, "'methods'", "at least 1"),
        ({"spec": {"data": "pacs"}, "axes": {"seed": [0]}}, "'data'", "pacs"),
        ({"axes": {"seed": []}}, "axes.seed", "no value"),
        ({"axes": {"seed": 3}}, "axes.seed.values", "`all`"),
        ({"axes": {"seed": [0, 1, 0]}}, "axes.seed", "'0' twice"),
        ({"axes": {"target": ["plain"], "data.target": ["ink"]}}, "axes.data.target", "as 'target'"),
        ({"axes": {"mu": {"key": "method.params.mu", "values": [1]}, "method.params.mu": [2]}}, "axes.mu", "'method.params.mu'"),
        ({"axes": {"mu": {"key": "method.params.mu", "vales": [1]}}}, "axes.mu", "'values'"),
        ({"figures": ["swep"]}, "figures", "'sweep'"),
        ({"figures": [{"sweep": {"x": "sed"}}]}, "figures.sweep.x", "'seed'"),
        ({"figures": [{"sweep": {"x": "seed", "lines": "seed"}}]}, "figures.sweep", "twice"),
        ({"figures": ["claims"]}, "figures.claims", "tests none"),
        ({"figures": [{"curves": {}, "sweep": {"x": "seed"}}]}, "figures", "2 names"),
    ],
)  # fmt: skip
def test_what_means_nothing_is_refused(project: Path, keys: dict[str, Any], place: str, hint: str) -> None:
    refused(plan(project, **keys), "experiments/tiny.yaml", place, hint)


@pytest.mark.parametrize("preset", [{}, ["released"], 7])
def test_a_preset_that_is_no_name_is_refused(project: Path, preset: Any) -> None:
    keys = {"methods": {"fedprox": {"preset": preset}}}
    refused(plan(project, **keys), "reference/presets/fedprox.yaml", f"unknown preset '{preset}'")


def test_a_claim_says_its_rows() -> None:
    experiment = load(Workspace(ROOT), "fdse/table1_office")
    said = paper_claim(Workspace(ROOT), "FDSE-C01.3", "here")
    claim = experiment.claims["FDSE-C01.3"]
    left, right = compared(said, experiment, claim, "here")
    rows = [cell.row for side in (*left, *right) for cell in side.cells]
    assert rows[0] == "fdse-released"  # whose number the paper's is
    assert set(rows) == set(experiment.methods) - {"fdse"}  # max over all the others
    assert compared({**said, "relation": "~"}, experiment, claim, "here") == (left, right)
    (by_name,), _ = compared(said, experiment, Claim(metric="all"), "here")
    assert [cell.row for cell in by_name.cells] == ["fdse"]


ONE: dict[str, Any] = {
    "title": "Tiny",
    "protocol": "digits",
    "spec": {"federation": {"rounds": 1}},
    "methods": {"fedavg": None},
}


def write(root: Path, **keys: Any) -> None:
    (root / "experiments" / "tiny.yaml").write_text(yaml.safe_dump({**ONE, **keys}, sort_keys=False))


def cells(root: Path, **axes: Any) -> list[Cell]:
    write(root, axes=axes)
    return expand(Workspace(root), load(Workspace(root), "tiny"))


def test_an_axis_bears_its_dotted_key_or_the_name_that_the_file_gives(project: Path) -> None:
    write(
        project,
        methods={"fedavg": None, "fedprox": None},
        axes={
            "local.precision": ["fp32", "bf16"],
            "rate": {"key": "local.lr", "values": [0.1, 0.2]},
            "target": ["ink"],
        },
        only={"fedprox": {"rate": [0.2], "local.precision": ["fp32"]}},
        tables={"t": {"columns": ["local.precision", "rate"]}},
    )
    cells = expand(Workspace(project), load(Workspace(project), "tiny"))
    assert [
        (cell.label, *cell.axes.values(), cell.spec.local.precision, cell.spec.local.lr) for cell in cells
    ] == [
        ("fedavg", "fp32", 0.1, "ink", "fp32", 0.1),
        ("fedavg", "fp32", 0.2, "ink", "fp32", 0.2),
        ("fedavg", "bf16", 0.1, "ink", "bf16", 0.1),
        ("fedavg", "bf16", 0.2, "ink", "bf16", 0.2),
        ("fedprox", "fp32", 0.2, "ink", "fp32", 0.2),
    ]
    assert cells[0].spec.data.target == "ink"
    found = collect(Workspace(project), "tiny", empty=True)
    assert found.keys == ["method", "local.precision", "rate", "target"]
    assert found.runs["precision"].tolist() == found.runs["local.precision"].tolist()
    assert found.order == {"local.precision": ["fp32", "bf16"], "rate": [0.1, 0.2], "target": ["ink"]}
    table = tables.cells(Workspace(project), found, found.experiment.tables["t"])
    assert len(table) == 5 * 2  # each point on both axes, with id and ood


def test_a_name_that_is_a_column_of_ours_is_refused(project: Path) -> None:
    write(project, axes={"precision": {"key": "local.lr", "values": [0.1]}, "seed": [0]})
    refused(fedshift(project, "collect", "tiny"), "axes.precision", "key: local.lr")


def test_lists_and_nulls_are_text(project: Path) -> None:
    fractions = [[0.8, 0.1, 0.1], [0.6, 0.2, 0.2]]
    found = cells(project, **{"partition.fractions": fractions, "local.clip": [None, 1.0], "seed": [0, 1]})
    assert [cell.axes for cell in found][:3] == [
        {"partition.fractions": "[0.8,0.1,0.1]", "local.clip": "none", "seed": 0},
        {"partition.fractions": "[0.8,0.1,0.1]", "local.clip": "none", "seed": 1},
        {"partition.fractions": "[0.8,0.1,0.1]", "local.clip": "1.0", "seed": 0},
    ]
    assert [list(cell.spec.partition.fractions) for cell in (found[0], found[-1])] == fractions
    assert (found[0].spec.local.clip, found[-1].spec.local.clip) == (None, 1.0)
    write(
        project,
        axes={"parts": {"key": "partition.fractions", "values": fractions}, "target": [None, "plain"]},
        tables={"t": {"columns": ["parts", "target"]}},
    )
    found_none = collect(Workspace(project), "tiny", empty=True)
    text = tables.write(Workspace(project), found_none).with_suffix(".md").read_text()
    assert "**parts = [0.6,0.2,0.2]**" in text
    assert "| method | none id | none ood | plain id | plain ood | Average id | Average ood |" in text


def test_columns() -> None:
    said = {
        "loss.pooled": Column("quantity", "loss.pooled"),
        "cost.up": Column("cost", "up"),
        "setting.method.params.lr": Column("setting", "method.params.lr"),
        "layer.block.3": Column("layer", "block.3"),
        "rounds_to.loss.id=0.5": Column("rounds_to", "loss.id=0.5"),
        "gain.ece.ood": Column("quantity", "ece.ood", "gain"),
        "ratio.rounds_to.ood=60": Column("rounds_to", "ood=60", "ratio"),
    }
    assert {text: column(text) for text in said} == said
    declared = {"setting.local.lr", "layer.model.1", "cost.parameters", "cost.state_dict", "cost.macs"}
    measured = {"ood", "cost.seconds", "cost.up", "cost.memory", "rounds_to.ood=60", "gain.ood"}
    assert {text for text in declared | measured if column(text).declared} == declared


@pytest.mark.parametrize(
    "text",
    ["cost.secnds", "layer.modl.1", "layer.model.0", "rounds_to.ood", "rounds_to.ood=nan", "gain.gain.ood", "odo", "cost", "ece.pooled"],
)  # fmt: skip
def test_columns_that_mean_nothing_are_refused(text: str) -> None:
    with pytest.raises(FedshiftError) as error:
        column(text, "here")
    assert error.value.where == "here" and error.value.cure


def names(root: Path, **keys: Any) -> list[str]:
    axes = {
        "clip": {"key": "local.clip", "values": [0.0001, 1.0]},
        "target": ["plain", "ink"],
        "seed": [0, 1],
    }
    write(root, methods={"fedavg": None, "fedprox": None}, axes=axes, **keys)
    return [*figures(load(Workspace(root), "tiny"))]


def test_files_are_named_by_the_figure_and_its_parameters(project: Path) -> None:
    assert names(project) == ["curves"]
    assert names(project, claims={"HF-C04.1": {"metric": "ood"}}) == ["curves", "claims"]
    assert names(project, claims={"HF-C04.1": {"metric": "ood"}}, figures=["curves"]) == ["curves"]
    assert names(project, figures=[]) == []
    listed = [{"sweep": {"x": "clip"}}, {"sweep": {"x": "clip", "metrics": ["ood", "all"]}}, {"curves": None}]
    assert names(project, figures=listed) == ["sweep-clip", "sweep-clip-ood-all", "curves"]
