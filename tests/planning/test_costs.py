"""What a run is estimated to cost: images, minutes, memory, disk; by hand, by measurement, by a guess."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from fedshift.cli import main
from fedshift.common.errors import FedshiftError
from fedshift.common.files import write_json
from fedshift.planning import planfile
from fedshift.planning.costs import cost, counts, measured
from fedshift.planning.plan import plan
from fedshift.planning.request import Request
from fedshift.spec import RunSpec
from fedshift.storage.workspace import Workspace


def test_cost_by_hand(workspace: Workspace) -> None:
    spec = RunSpec.model_validate_json(planfile.runs(plan(workspace, Request(("paper/two",))))[0].spec)
    folder = workspace.root / "benchmarks"
    folder.mkdir()
    row = "digits_cnn,32,cpu,fp32,1000,by hand"
    (folder / "costs.csv").write_text(f"model,input_px,device,precision,images_per_second,source\n{row}\n")
    measured.cache_clear()
    # plain (454 images) is held out; 10 rounds of 2 epochs over 80 % of 451 + 447 + 445, and 11 evaluations
    trained, evaluated = 10 * 2 * 0.8 * 1343, 11 * (0.2 * 1343 + 454)
    estimate = cost(workspace, spec, "cpu")
    assert estimate.images == round(trained + evaluated) == 29437
    assert estimate.minutes == round(0.5 + (trained + evaluated / 3) / 1000 / 60, 2) == 0.9
    row_mb = (61_671 + 3 * 65) * 4 / 1e6  # ten classes
    checkpoint = 4 * row_mb  # the server's, the clients' average, the best round's by two rules
    assert estimate.mem_mb == round(3000 + 4 * checkpoint)
    assert estimate.kept_mb == round(3 * row_mb) + 1  # last, first and later best
    assert estimate.disk_mb == round(2 * checkpoint) + estimate.kept_mb  # the old one and the new


def test_a_domain_that_a_tree_has_not_is_refused(workspace: Workspace) -> None:
    """Only its manifest names the domains of a tree of the user's own."""
    by_class = {"a": {"ill": 9, "well": 9}}
    raw = workspace.raw("folder", "clinics")
    write_json(raw.with_name("clinics.manifest.json"), {"counts": by_class})
    for target in ("a", "b"):
        spec = RunSpec.model_validate(
            {
                "data": {"dataset": "folder", "release": "clinics", "target": target},
                "model": {"name": "digits_cnn"},
                "method": {"name": "fedavg"},
                "local": {"batch": 8, "lr": 0.1},
                "federation": {"rounds": 2},
            }
        )
        said = "unknown domain 'b'" if target == "b" else "no source domain is left"
        with pytest.raises(FedshiftError, match=said):
            cost(workspace, spec, "cpu")


def test_estimates_that_nothing_was_measured_for_are_marked(workspace: Workspace) -> None:
    told = CliRunner().invoke(main, ["--root", str(workspace.root), "plan", "one"]).output
    assert told.splitlines()[1].split()[6].startswith("~")
    assert (
        "~ Not measured on cpu, estimated: digits_cnn at 32 px in fp32 (from 5e+09 multiply-accumulates a second, assumed)."
        in told
    )
    (workspace.root / "benchmarks").mkdir()
    header = "model,input_px,device,precision,images_per_second,source"
    (workspace.root / "benchmarks" / "costs.csv").write_text(f"{header}\ndigits_cnn,32,cpu,fp32,900,x\n")
    measured.cache_clear()
    told = CliRunner().invoke(main, ["--root", str(workspace.root), "plan", "one"]).output
    assert "~" not in told


FOLDER = """\
title: Folder
protocol: digits
spec: {data: {dataset: folder, release: mine}}
methods: {fedavg: }
axes: {target: [b], seed: [0]}
"""


def test_a_fetched_data_set_is_planned_anew_and_stops_no_job(workspace: Workspace) -> None:
    (workspace.root / "experiments" / "one.yaml").write_text(FOLDER)
    request = Request(("one",))
    guessed = plan(workspace, request)
    told = CliRunner().invoke(main, ["--root", str(workspace.root), "plan", "one"]).output
    assert "the images of folder mine, a guess. Run: fedshift fetch folder --release mine" in told
    (run,) = planfile.runs(guessed)
    by_class = {"a": {"x": 30, "y": 70}, "b": {"x": 5, "y": 5}, "c": {"x": 100, "y": 100}}
    write_json(workspace.raw("folder", "mine").with_name("mine.manifest.json"), {"counts": by_class})
    counts.cache_clear()
    known = plan(workspace, request)
    assert known != guessed
    (counted,) = planfile.runs(known)
    assert counted.digest == run.digest
    spec = RunSpec.model_validate_json(run.spec)
    rounds, epochs = spec.federation.rounds, spec.local.epochs
    assert counted.images == round(rounds * epochs * 0.8 * 300 + (rounds + 1) * (0.2 * 300 + 10))
    assert run.images == round(
        rounds * epochs * 0.8 * 10_000 + (rounds + 1) * 0.2 * 10_000
    )  # four domains of 2500
    told = CliRunner().invoke(main, ["--root", str(workspace.root), "plan", "one"]).output
    assert "a guess. Run: fedshift fetch" not in told
