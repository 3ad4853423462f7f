"""From a declaration to its runs: presets, data sets on axes, seeds, two held-out domains, and a run in a few words."""

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch
import yaml

from fedshift.analysis.collect import collect
from fedshift.analysis.tables import write
from fedshift.common.registry import get
from fedshift.data.dataset import Address
from fedshift.data.partition import load_partition, partition
from fedshift.data.prepare import load_index
from fedshift.experiments.declare import spec_of
from fedshift.experiments.expand import Cell, expand
from fedshift.experiments.load import load as load_experiment
from fedshift.experiments.schema import Experiment
from fedshift.spec import RunSpec
from fedshift.spec.resolve import resolve
from fedshift.storage.workspace import Workspace
from fedshift.testing.toys import spec
from fedshift.training.run import Machine, train
from tests.conftest import ROOT
from tests.experiments.test_protocols import declared

OFFICE, PACS = "office_caltech10", "pacs"


def cells(**keys: Any) -> list[Cell]:
    told = {"name": "tried", "title": "Tried", "protocol": "fdse", "axes": {"seed": [2]}, **keys}
    return expand(Workspace(ROOT), Experiment.model_validate(told))


def settings(spec: RunSpec) -> tuple[str, int, float, Any]:
    """What FDSE's protocol and presets set by data set: local epochs, FedProx's rate and mu."""
    return spec.data.dataset, spec.local.epochs, spec.local.lr, spec.method.params.get("mu")


TUNED = [(OFFICE, 1, 0.1, 0.1), (PACS, 5, 0.05, 0.0001)]


def test_a_data_set_on_an_axis_has_its_settings_and_presets() -> None:
    found = cells(methods={"fedprox": None}, axes={"data.dataset": [OFFICE, PACS], "seed": [2]})
    assert [settings(cell.spec) for cell in found] == TUNED
    assert [cell.axes for cell in found] == [{"data.dataset": name, "seed": 2} for name in (OFFICE, PACS)]


def test_a_data_set_in_an_entry_has_its_settings_and_presets() -> None:
    methods = {name: {"method": {"name": "fedprox"}, "data": {"dataset": name}} for name in (OFFICE, PACS)}
    assert [settings(cell.spec) for cell in cells(methods=methods)] == TUNED
    over = cells(methods={"fedprox": {"data": {"dataset": PACS}}}, spec={"data": {"dataset": OFFICE}})
    assert [settings(cell.spec) for cell in over] == TUNED[1:]


def test_what_an_experiment_says_itself_still_wins() -> None:
    found = cells(
        methods={"fedprox": {"local": {"lr": 0.3}}},
        spec={"local": {"epochs": 2}},
        axes={"data.dataset": [OFFICE, PACS], "method.params.mu": [0.5], "seed": [2]},
    )
    assert [settings(cell.spec) for cell in found] == [(OFFICE, 2, 0.3, 0.5), (PACS, 2, 0.3, 0.5)]


def test_all_targets_and_seeds_are_those_of_each_data_set() -> None:
    axes = {"data.dataset": [OFFICE, PACS], "target": "all", "seed": "all"}
    found = cells(methods={"fedavg": None, "fedbn": None}, protocol="fdse_unseen", axes=axes)
    targets: dict[str, list[Any]] = {OFFICE: [], PACS: []}
    for cell in found:
        if cell.label == "fedbn":
            targets[cell.spec.data.dataset].append(cell.spec.data.target)
            data = cell.spec.data
            assert cell.axes == {"data.dataset": data.dataset, "target": data.target, "seed": 2}
    assert targets == {name: list(get("datasets", name).domains) for name in (OFFICE, PACS)}
    assert len(found) == 2 * (4 + 4)


def test_a_domain_that_two_data_sets_share_is_held_out_of_both() -> None:
    found = cells(
        methods={"fedavg": None},
        protocol="hfedf",
        axes={"data.dataset": ["pacs", "domainnet10"], "target": "all", "seed": [0]},
        only={"fedavg": {"target": ["sketch", "photo"]}},
    )
    assert [(cell.spec.data.dataset, cell.spec.data.target) for cell in found] == [
        ("pacs", "photo"), ("pacs", "sketch"), ("domainnet10", "sketch")
    ]  # fmt: skip


def test_presets_of_methods_hold_for_protocols_that_build_on_theirs(project: Path) -> None:
    (project / "reference" / "presets" / "fedavg.yaml").write_text(
        "{fdse: {digits: {local: {lr: 0.3}}}, fdse_unseen: {'*': {local: {clip: 7.0}}}}"
    )
    (cell,) = declared(project, "fdse_unseen")
    assert (cell.spec.local.lr, cell.spec.local.clip) == (0.3, 7.0)


WORKSPACE = Workspace(ROOT)


@pytest.mark.parametrize(
    ("name", "label", "axes", "data", "settings"),
    [
        ("hfedf/photo", "hfedf", {"d": 1, "target": "photo"}, "pacs", {"partition.params.d": 1}),
        ("demo_all", "ccst-rgb", {"target": "ink"}, "digits", {"method.params.space": "rgb"}),
    ],
)
def test_it_is_the_experiments_run(name: str, label: str, axes: Any, data: str, settings: Any) -> None:
    experiment = load_experiment(WORKSPACE, name)
    cells = expand(WORKSPACE, experiment)
    (spec,) = [cell.spec for cell in cells if cell.label == label and cell.axes == {**axes, "seed": 0}]
    words = spec.method.name, Address(data), axes["target"]
    assert spec_of(WORKSPACE, *words, protocol=experiment.protocol, settings=settings) == spec


torch.set_num_threads(1)
EXPERIMENT: dict[str, Any] = {
    "title": "Leave one domain out for choosing",
    "protocol": "digits",
    "spec": {"data": {"dataset": "digits"}, "local": {"epochs": 1}, "federation": {"rounds": 2}},
    "methods": {"fedavg": None},
    "axes": {"target": [["outline", "ink"], ["outline", "plain"]], "seed": [0]},
    "tables": {"rules": {"columns": ["target"], "select": ["last", "held_out", "oracle"]}},
}


def leaving_one_out(project: Path, **keys: Any) -> list[Cell]:
    (project / "experiments" / "lodo.yaml").write_text(yaml.safe_dump({**EXPERIMENT, **keys}))
    return expand(Workspace(project), load_experiment(Workspace(project), "lodo"))


def test_from_the_experiment_to_the_table(project: Path) -> None:
    workspace, cells = Workspace(project), leaving_one_out(project)
    assert [cell.axes for cell in cells] == [
        {"target": "outline", "validation": other, "seed": 0} for other in ("ink", "plain")
    ]
    accuracies: dict[str, dict[tuple[int, int], float]] = {}
    for cell in cells:
        table, _ = load_partition(
            partition(workspace, cell.spec), load_index(workspace.prepared(cell.spec.data.prepared_name))
        )
        held_out = table[table["split"] == "target"]
        assert set(held_out["domain"]) == {"outline", cell.axes["validation"]}
        assert (held_out["client"] == -1).all() and table["client"].max() == 1
        summary = train(workspace, cell.spec, Machine(torch.device("cpu")))
        assert summary["target"] == f"outline+{cell.axes['validation']}"
        assert [one["domains"] for one in summary["clients"]] == [
            [name] for name in ("plain", "ink", "texture") if name != cell.axes["validation"]
        ]
        rows = pq.read_table(workspace.run(cell.spec.run_name).metrics).to_pylist()
        tested = [row for row in rows if row["split"] == "target" and row["metric"] == "accuracy"]
        sizes = {"outline": 445, "ink": 451, "plain": 454}
        assert {(row["client"], row["n"]) for row in tested} == {
            (-1, 445),
            (-2, sizes[cell.axes["validation"]]),
        }
        accuracies[cell.axes["validation"]] = {(row["round"], row["client"]): row["value"] for row in tested}
    collected = collect(workspace, "lodo")
    text = write(workspace, collected).with_suffix(".md").read_text()
    assert "select = held_out" in text and "select = oracle" in text
    by_hand = []
    for values in accuracies.values():
        best = max(range(3), key=lambda finished: values[finished, -2])  # the first of equal rounds
        by_hand.append(100 * values[best, -1])
    csv = (workspace.tables("lodo") / "rules.csv").read_text().splitlines()
    header = csv[0].split(",")
    (line,) = (dict(zip(header, row.split(","), strict=True)) for row in csv if ",held_out,ood," in row)
    assert float(line["mean"]) == pytest.approx(sum(by_hand) / 2, abs=1e-4)


def test_the_order_is_declared_and_one_target_is_what_it_was() -> None:
    def digest(target: Any) -> str:
        return (resolve(spec(data={"target": target}))).run_id

    assert digest(["ink", "plain"]) == digest(("ink", "plain")) != digest(["plain", "ink"])
    assert digest("ink") == "a113a7c3e3f7cb41"
    one = RunSpec.model_validate(resolve(spec(data={"target": "ink"})).model_dump(mode="json"))
    assert one.data.held_out == ("ink",) and one.data.target_name == "ink"
    assert spec().data.held_out == () and spec().data.target_name is None
