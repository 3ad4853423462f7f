"""What a search chooses: by validation, never by test, the same whatever order its runs come in."""

import json
import math
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from fedshift.analysis import tuning
from fedshift.analysis.collected import Collected
from fedshift.analysis.tuning import best, tried
from fedshift.common.errors import FedshiftError
from fedshift.experiments.expand import expand
from fedshift.experiments.load import load
from fedshift.experiments.schema import Experiment
from fedshift.experiments.tuning import Choice, Chosen, read_choice, trials
from fedshift.storage.rundir import RunDirectory

from .conftest import Project, accuracy

TUNE = {"budget": 3, "seeds": [100, 101]}
RATES = 'grid: {"*": {local.lr: [0.1, 0.2, 0.3]}}'
Values = dict[float, tuple[float, float]]  # rate -> accuracy on validation; on test and the held-out domain


def searched(
    project: Project, values: Values, protocol: str = "digits", **keys: Any
) -> tuple[Experiment, Collected]:
    """The finished search of one row over three rates; the second seed lies 0.02 above the first."""
    axes = {"target": ["plain"], "seed": [0]}
    preset = project.workspace.reference / "presets" / "fedavg.yaml"
    preset.unlink(missing_ok=True)  # a link to ours
    preset.write_text(RATES)
    project.declare(methods={"fedavg": None}, axes=axes, tune=TUNE, protocol=protocol, **keys)
    experiment = load(project.workspace, "toy")
    project.name = "toy.tuning"
    for cell in expand(project.workspace, load(project.workspace, "toy.tuning")):
        val, test = values[cell.spec.local.lr]
        val += 0.02 * (cell.axes["seed"] - 100)
        rounds = {0: accuracy((0.1, 0.1), 0.1), 1: accuracy((test, test), test, val=(val, val))}
        project.add(cell.label, rounds, spec=cell.spec, **cell.axes)
    return experiment, project.collect()


def choice(project: Project, values: Values, **keys: Any) -> Choice:
    experiment, collected = searched(project, values, **keys)
    tuning.write(project.workspace, experiment, collected)
    return read_choice(project.workspace, "toy")


AGAINST_TEST: Values = {0.1: (0.5, 0.9), 0.2: (0.7, 0.2), 0.3: (0.6, 0.8)}


def test_the_choice_is_by_validation_where_test_says_otherwise(project: Project) -> None:
    """What was tried stands beside it."""
    found = choice(project, AGAINST_TEST)
    (chosen,) = found.chosen
    assert (chosen.row, chosen.where, chosen.points, chosen.failed) == ("fedavg", {"target": "plain"}, 3, 0)
    assert chosen.values == {"local.lr": 0.2} and chosen.validation == pytest.approx(71.0)  # over both seeds
    assert "| fedavg | plain | local.lr 0.2 | 71.00 | 3 | 0 |" in tuning.page(found)
    runs = project.collect().runs
    assert {*chosen.runs} == {*runs.loc[runs["method"].str.contains("0.2"), "digest"]}
    table = pd.read_csv(project.workspace.tables("toy") / "searched.csv")
    assert list(table) == ["method", "target", "local.lr", "validation", "std", "runs", "chosen"]
    table = table.sort_values("local.lr")
    assert table[["local.lr", "validation", "std", "chosen"]].round(6).to_numpy().tolist() == [
        [0.1, 51.0, 1.0, False], [0.2, 71.0, 1.0, True], [0.3, 61.0, 1.0, False],
    ]  # fmt: skip


def rewritten(collected: Collected, splits: tuple[str, ...], value: float) -> None:
    """All collected accuracies on these splits become this value."""
    table = pq.read_table(collected.path)
    theirs = pc.is_in(table["split"], pa.array(splits))
    values = pc.if_else(theirs, pa.scalar(value, table["value"].type), table["value"])
    place = table.column_names.index("value")
    pq.write_table(table.set_column(place, table.schema.field("value"), values), collected.path)


@pytest.mark.parametrize("value", [0.0, 1.0, math.nan])
def test_no_test_accuracy_can_move_the_choice(project: Project, value: float) -> None:
    """Whatever stands on test and on the held-out domain: the same bytes. On validation: not."""
    experiment, collected = searched(project, AGAINST_TEST)
    path = tuning.write(project.workspace, experiment, collected)
    files = (path, project.workspace.tables("toy") / "searched.csv")
    before = [file.read_bytes() for file in files]
    rewritten(collected, ("test", "target"), value)
    tuning.write(project.workspace, experiment, collected)
    assert [file.read_bytes() for file in files] == before
    rewritten(collected, ("val",), 0.25)
    tuning.write(project.workspace, experiment, collected)
    assert path.read_bytes() != before[0]


def test_the_round_is_the_protocols(project: Project) -> None:
    """`last` scores the last round, and `best_first` the best, which is round 0 here."""
    values = {0.1: (0.05, 0.5), 0.2: (0.05, 0.5), 0.3: (0.04, 0.5)}
    (chosen,) = choice(project, values).chosen
    assert (chosen.values, chosen.validation) == ({"local.lr": 0.1}, pytest.approx(6.0))
    project.runs, project.cells = [], []
    found = choice(project, values, protocol="unified", spec={"data": {"dataset": "digits"}})
    assert found.rule == "best_first" and found.chosen[0].validation == pytest.approx(10.0)


Point = dict[str, Any]


def point(rate: float, *scores: float, row: str = "fedavg", **where: Any) -> Point:
    """A row of what `tried` returns."""
    settings = {"row": row, "values": {"local.lr": rate}, "where": json.dumps(where)}
    return {**settings, "scores": list(scores), "runs": []}


def chosen_of(*points: Point) -> list[Chosen]:
    return best(pd.DataFrame([*points]), "last").chosen


def test_of_equal_points_the_first_is_taken() -> None:
    tied = [point(0.1, 50.0), point(0.2, 60.0), point(0.3, 60.0)]
    assert chosen_of(*tied)[0].values == {"local.lr": 0.2}
    # Sums of the same scores in another order, which may differ in their last bit.
    tied = [point(0.1, 0.1, 0.2, 0.3), point(0.2, 0.3, 0.2, 0.1)]
    assert chosen_of(*tied)[0].values == {"local.lr": 0.1}


def test_each_row_and_place_has_a_choice_of_its_own() -> None:
    found = chosen_of(
        point(0.1, 50.0, d=1), point(0.2, 60.0, d=1), point(0.1, 60.0, d=2), point(0.2, 50.0, d=2),
        point(0.1, 1.0, row="fedprox", d=1),
    )  # fmt: skip
    assert [(one.row, one.where, one.values["local.lr"]) for one in found] == [
        ("fedavg", {"d": 1}, 0.2), ("fedavg", {"d": 2}, 0.1), ("fedprox", {"d": 1}, 0.1),
    ]  # fmt: skip


def test_a_point_that_failed_is_never_taken() -> None:
    (chosen,) = chosen_of(point(0.1, 99.0, math.nan), point(0.2, 10.0, 10.0))
    assert (chosen.values, chosen.points, chosen.failed) == ({"local.lr": 0.2}, 2, 1)
    with pytest.raises(FedshiftError, match="all 2 points of 'fedavg'"):
        chosen_of(point(0.1, math.nan), point(0.2, math.inf))


def test_failed_runs_are_left_out_and_missing_ones_are_waited_for(project: Project) -> None:
    experiment, collected = searched(project, AGAINST_TEST)
    label = next(one.label for one in trials(project.workspace, experiment) if one.values["local.lr"] == 0.2)
    runs = collected.runs[collected.runs["method"] == label]
    run = RunDirectory(project.workspace.root / runs["run"].iloc[0])
    run.summary_file.unlink()
    with pytest.raises(FedshiftError, match="1 of 6 runs of the search are not finished"):
        tried(project.workspace, experiment, project.collect())
    run.fail({"kind": "FedshiftError", "text": "not finite", "retry": False, "trace": ""})
    (chosen,) = best(tried(project.workspace, experiment, project.collect()), "last").chosen
    assert (chosen.values, chosen.failed) == ({"local.lr": 0.3}, 1)
