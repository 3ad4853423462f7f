"""Adaptations that an experiment asks for: what is refused before anything trains, and real runs adapted by one call."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from fedshift.experiments.expand import evaluations, expand
from fedshift.experiments.load import load
from fedshift.experiments.protocols import merge
from fedshift.experiments.task import Task, read_result
from fedshift.planning import job, planfile
from fedshift.planning.planfile import Run
from fedshift.storage.workspace import Workspace
from tests.verbs import done, fedshift, refused

TINY: dict[str, Any] = {
    "title": "Tiny",
    "protocol": "digits",
    "spec": {
        "federation": {"rounds": 1},
        "local": {"epochs": 1, "batch": 64},
        "partition": {"target_split": "client"},
    },
    "methods": {"fedbn": None, "fdse": None},
    "adapt": {"fdse-adapted": {"run": "fdse", "name": "fdse", "params": {"epochs": 2}}},
    "axes": {"target": ["plain"], "seed": [0]},
    "tables": {"main": {"columns": ["target"]}},
}
ROW = "experiments/tiny.yaml: adapt.fdse-adapted"
ASKED = "experiments/tiny.yaml: evaluations"


def declared(project: Path, **changes: Any) -> None:
    (project / "experiments" / "tiny.yaml").write_text(yaml.safe_dump({**TINY, **changes}, sort_keys=False))


def changed(**row: Any) -> dict[str, Any]:
    return {"adapt": {"fdse-adapted": {**TINY["adapt"]["fdse-adapted"], **row}}}


KEEPS_NONE = {"evaluation": {"keep": "none"}}
OF_CLIENTS = ("activations", "cka", "distances", "filters", "tsne")  # which look at clients' own images
MISTAKES: list[tuple[dict[str, Any], tuple[str, ...]]] = [
    (changed(nmae=1), ("experiments/tiny.yaml", "'adapt.fdse-adapted.nmae'", "Did you mean 'name'?")),
    (changed(run="fdsee"), (f"{ROW}.run", "unknown method of this experiment 'fdsee'", "mean 'fdse'?")),
    (changed(name="fedbm"), (ROW, "unknown evaluation 'fedbm'", "Did you mean 'fedbn'?")),
    (changed(params={"epoch": 2}), (ROW, "unknown key 'epoch' of fdse", "Did you mean 'epochs'?")),
    (changed(params={"batch": 1}), (ROW, "'batch' of fdse", "greater than or equal to 2", "Got 1")),
    (changed(run="fedbn"), (ROW, "the model has no DSE module to adapt", "Choose a run of the method fdse")),
    ({"adapt": {"fdse": {"run": "fdse", "name": "fdse"}}}, ("adapt.fdse", "is the name of a method, too")),
    ({"adapt": {"more": {"run": "fdse"}}}, ("'adapt.more.name' is missing",)),
    (changed(name="confusion"), (ROW, "'confusion' does not adapt the model", "what adapts: fdse, fedbn")),
    ({"evaluations": ["confusion"], "adapt": {"confusion": {"run": "fdse", "name": "fdse"}}}, ("adapt.confusion", "is the name of an evaluation, too")),
    ({"evaluations": ["confusoin"]}, (ASKED, "unknown evaluation 'confusoin'", "mean 'confusion'?")),
    ({"evaluations": [{"features": {"image": 3}}]}, (f"{ASKED}.features-3", "unknown key 'image'", "'images'")),
    ({"evaluations": [{"features": {"images": 0}}]}, (ASKED, "greater than or equal to 1")),
    *(({"evaluations": [{name: {"splits": ["target"]}}]}, (ASKED, f"'splits.0' of {name}", "Got 'target'")) for name in OF_CLIENTS),
    ({"evaluations": ["confusion", "confusion"]}, (ASKED, "lists 'confusion' twice")),
    ({"evaluations": ["confusion"], "adapt": {}, "spec": KEEPS_NONE}, (f"{ASKED}.confusion", "its runs keep no weights", "evaluation.keep: post_agg")),
    ({"evaluations": ["features"], "axes": {"target": ["plain"], "label": {"key": "local.lr", "values": [0.1]}}}, ("axes.label", "is a column of what the evaluation 'features' gives", "another name")),
    ({"methods": {"fedavg": {"model": {"name": "hfedf_cnn"}}}, "adapt": {"fedavg-adapted": {"run": "fedavg", "name": "fedbn"}}}, ("hfedf_cnn has no batch normalisation to adapt",)),
    ({"axes": {"seed": [0]}}, (ROW, "holds out no domain to adapt to", "one target")),
    ({"axes": {"target": [["plain", "texture"]]}}, (ROW, "holds out two domains")),
    ({"spec": merge(TINY["spec"], KEEPS_NONE)}, (ROW, "its runs keep no weights", "evaluation.keep: post_agg")),
    ({"tables": {"main": {"select": ["last", "oracle"]}}}, ("tables.main.select", "have one round", "'last'", "Leave `select` out")),
]  # fmt: skip


@pytest.mark.parametrize(("mistake", "parts"), MISTAKES, ids=[str(mistake) for mistake, _ in MISTAKES])
def test_mistakes_are_told_by_the_plan(
    project: Path, mistake: dict[str, Any], parts: tuple[str, ...]
) -> None:
    declared(project, **mistake)
    refused(fedshift(project, "plan", "tiny"), *parts)


def test_adapted_cells_follow_the_methods_and_start_from_the_round_shown(project: Path) -> None:
    declared(project)
    cells = expand(Workspace(project), load(Workspace(project), "tiny"))
    assert [(cell.label, cell.task) for cell in cells] == [
        ("fedbn", None),
        ("fdse", None),
        ("fdse-adapted", Task("fdse", {"epochs": 2}, "last", "tested")),
    ]
    assert cells[1].spec == cells[2].spec
    told = cells[2].task.declared()
    assert told["task"]["params"] == {"epochs": 2, "lr": 0.01, "batch": 50}
    assert Task(**told["task"]).declared() == told  # what a plan says is what a job does


def test_evaluations_are_in_the_plan_and_make_no_run(project: Path) -> None:
    declared(project)
    before = planfile.runs(project / done(fedshift(project, "plan", "tiny", "--print", "path")).strip())
    declared(project, evaluations=["confusion", {"features": {"images": 20}}])
    path = project / done(fedshift(project, "plan", "tiny", "--print", "path")).strip()
    assert [run.digest for run in planfile.runs(path)] == [run.digest for run in before]
    tasks = evaluations(Workspace(project), load(Workspace(project), "tiny"))
    assert [*tasks.items()] == [
        ("confusion", Task("confusion", {}, "last")),
        ("features-20", Task("features", {"images": 20}, "last")),
    ]
    written = {one.label: json.loads(one.task) for one in planfile.load(path).evaluations}
    assert written["features-20"]["task"]["params"] == {"images": 20, "seed": 0, "splits": ["test", "target"]}
    for told in written.values():  # what a plan says is what a job does
        assert json.loads(json.dumps(Task(**told["task"]).declared())) == told


def test_minutes_of_a_job(project: Path) -> None:
    """A minute and ten rounds each: of 20 rounds in 10 minutes, 5."""
    run = Run("", "", "", "", "", "", 0, "", "", 20, 0, 10.0, 0, 0, "", "")
    assert job.evaluating([run, run], 24) == 5 + 2 * (1 + 5)
    assert job.evaluating([run, run], 24, attempt=2) == 5 + 2 * 2 * (1 + 5)


@pytest.mark.slow
def test_an_experiment_by_the_verbs(project: Path) -> None:
    """Of two runs one is finished: it is adapted, the other one named; then both are, and the first is not adapted again."""
    both = TINY["adapt"] | {"fedbn-adapted": {"run": "fedbn", "name": "fedbn"}}
    best = {"title": "The best round", "base": "digits", "spec": {}, "select": "best_first"}
    (project / "reference" / "protocols" / "best.yaml").write_text(yaml.safe_dump(best))
    still = merge(TINY["spec"], {"local": {"lr": 1e-12}})  # nothing is learnt: the best round is the start
    declared(project, protocol="best", spec=still, adapt=both)
    path = project / done(fedshift(project, "plan", "tiny", "--print", "path")).strip()
    fdse, fedbn = (next(run for run in planfile.runs(path) if run.method == name) for name in ("fdse", "fedbn"))  # fmt: skip
    done(fedshift(project, "partition", "--plan", str(path)))
    done(fedshift(project, "train-pack", fdse.digest, "--plan", str(path)))
    adapt = ["evaluate", "tiny", "--plan", str(path)]
    shown = done(fedshift(project, *adapt))
    assert f"not finished: {fedbn.directory}" in shown and "fdse-adapted: 1 of 1 runs" in shown
    (result,) = (project / fdse.directory / "evaluated").glob("*.parquet")
    assert "2 of 4 runs" in done(fedshift(project, "collect", "tiny", "--plan", str(path)))
    done(fedshift(project, "train-pack", fedbn.digest, "--plan", str(path)))
    before = result.stat().st_mtime_ns
    for partition in (project / "data" / "partitions").rglob("*.parquet"):
        partition.unlink()  # made anew
    shown = done(fedshift(project, *adapt[:-2]))  # without a plan: of the code installed now
    assert "fdse-adapted: 1 of 1 runs" in shown and "fedbn-adapted: 1 of 1 runs" in shown
    assert result.stat().st_mtime_ns == before
    made, told = read_result(result)
    value = {(row["stage"], row["metric"]): row["value"] for row in made.to_pylist()}
    assert "4 of 4 runs" in done(fedshift(project, "collect", "tiny"))
    done(fedshift(project, "table", "tiny"))
    table = pd.read_csv(project / "results" / "tables" / "tiny" / "table.csv")
    ood = table[table["metric"] == "ood"].set_index("method")["mean"]
    assert list(ood.index) == ["fedbn", "fedbn-adapted", "fdse", "fdse-adapted"]
    assert ood["fdse"] == pytest.approx(
        100 * value["post_agg", "accuracy"], abs=1e-4
    )  # the same images, the same model
    assert ood["fdse-adapted"] == pytest.approx(100 * value["adapted", "accuracy"], abs=1e-4)
    summary = json.loads((project / fdse.directory / "summary.json").read_text())
    assert told["round"] == summary["best_round"]["first"] == 0
    metrics = pd.read_parquet(project / fdse.directory / "metrics.parquet")
    assert {*made["n"].to_pylist()} == {metrics.query("split == 'target'")["n"].iloc[0]}
    assert value["adapted", "loss"] != value["post_agg", "loss"]


def test_what_goes_together(project: Path) -> None:
    declared(project, adapt={})
    refused(fedshift(project, "evaluate", "tiny"), "tiny.yaml", "evaluates nothing", "`evaluations`")
    refused(
        fedshift(project, "evaluate", "tiny", "--full-domain"), "are of one evaluation", "Name an EVALUATION"
    )
    refused(fedshift(project, "evaluate", "0123", "confusion"), "no finished run is called '0123'")
