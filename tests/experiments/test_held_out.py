"""Two held-out domains, `target: [a, b]`, from the experiment file to the table; and runs with one are what they were."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch
import yaml

from fedshift.analysis.collection.collect import collect
from fedshift.analysis.tables import write
from fedshift.common.errors import FedshiftError
from fedshift.data.partition import load_partition, partition
from fedshift.data.prepare import load_index
from fedshift.experiments.expand import Cell, expand
from fedshift.experiments.load import load
from fedshift.spec import RunSpec
from fedshift.spec.resolve import resolve
from fedshift.storage.workspace import Workspace
from fedshift.testing.toys import spec
from fedshift.training.run import Machine, train

torch.set_num_threads(1)

EXPERIMENT: dict[str, Any] = {
    "title": "Leave one domain out for choosing",
    "protocol": "digits",
    "spec": {"data": {"dataset": "digits"}, "local": {"epochs": 1}, "federation": {"rounds": 2}},
    "methods": {"fedavg": None},
    "axes": {"target": [["outline", "ink"], ["outline", "plain"]], "seed": [0]},
    "tables": {"rules": {"columns": ["target"], "select": ["last", "held_out", "oracle"]}},
}


def declared(project: Path, **keys: Any) -> list[Cell]:
    (project / "experiments" / "lodo.yaml").write_text(yaml.safe_dump({**EXPERIMENT, **keys}))
    return expand(Workspace(project), load(Workspace(project), "lodo"))


def test_from_the_experiment_to_the_table(project: Path) -> None:
    workspace, cells = Workspace(project), declared(project)
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
        name = cell.spec.run_id
        run = workspace.run(f"{cell.spec.place}/{name}").path
        assert run.parent.parent.name == summary["target"]
        rows = pq.read_table(run / "metrics.parquet").to_pylist()
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
    shown = load(Workspace(project), "lodo").tables["rules"]
    assert shown.select == ["last", "held_out", "oracle"]
    rules = pq.read_table(workspace.metrics("lodo")).column_names
    assert {"target", "validation"} <= set(rules)
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
        return resolve(spec(data={"target": target})).run_id

    assert digest(["ink", "plain"]) == digest(("ink", "plain")) != digest(["plain", "ink"])
    assert digest("ink") == "a113a7c3e3f7cb41"
    one = RunSpec.model_validate(resolve(spec(data={"target": "ink"})).model_dump(mode="json"))
    assert one.data.held_out == ("ink",) and one.data.target_name == "ink"
    assert spec().data.held_out == () and spec().data.target_name is None


@pytest.mark.parametrize("target", [["ink", "ink"], ["ink", "inc"]])
def test_two_must_be_two_domains(target: list[str]) -> None:
    with pytest.raises(FedshiftError, match=r"data\.target"):
        resolve(spec(data={"target": target}))
