"""The plan: every run once, packs by configuration, its key, stamps, costs, states."""

from __future__ import annotations

import json
import os
import shutil
import socket
from itertools import groupby
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

from fedshift.cli import main
from fedshift.cli.status import describe
from fedshift.data.partition import partition
from fedshift.errors import FedshiftError
from fedshift.files import sha256, write_json
from fedshift.packstamp import forget_failures
from fedshift.planning import job, planfile
from fedshift.planning.costs import Cost, cost, counts
from fedshift.planning.hashes import sources_key
from fedshift.planning.plan import plan, ready
from fedshift.planning.planfile import Run
from fedshift.planning.rates import factors, measured, speed
from fedshift.planning.request import Request
from fedshift.resolve import resolve
from fedshift.rundir import State
from fedshift.spec import Method, RunSpec, parse
from fedshift.training.run import Machine, train
from fedshift.workspace import Workspace

REFERENCE = Path(__file__).parents[2] / "reference"
ONE = """\
title: One
protocol: digits
spec: {federation: {rounds: 10}, local: {epochs: 2}}
methods: {fedavg: , fedprox: {method: {params: {mu: 0.1}}}}
axes: {target: [plain, ink], seed: [0, 1, 2]}
"""
TWO = """\
title: Two
protocol: digits
spec: {federation: {rounds: 10}, local: {epochs: 2}}
methods: {fedavg: }
axes: {target: [plain], seed: [2, 3]}
"""


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    shutil.copytree(REFERENCE / "protocols", tmp_path / "reference" / "protocols")
    (tmp_path / "experiments" / "paper").mkdir(parents=True)
    (tmp_path / "experiments" / "one.yaml").write_text(ONE)
    (tmp_path / "experiments" / "paper" / "two.yaml").write_text(TWO)
    return Workspace(tmp_path)


def finish(workspace: Workspace, run: Run) -> None:
    write_json(workspace.root / run.directory / "summary.json", {"digest": run.digest})


def test_the_key_of_sources_covers_the_package_and_each_of_its_rooms() -> None:
    nothing = sources_key("no such room")
    assert len({nothing, *map(sources_key, ("", "analysis", "planning"))}) == 4


def test_runs_shared_by_experiments_are_planned_once(workspace: Workspace) -> None:
    path = plan(workspace, Request(("one", "paper/two")))
    runs, cells = planfile.runs(path), planfile.cells(path)
    assert len(runs) == 12 + 1  # two's seed 2 on plain is in one already
    assert [sum(cell.experiment == name for cell in cells) for name in ("one", "paper/two")] == [12, 2]
    assert {cell.digest for cell in cells} == {run.digest for run in runs}
    assert len(planfile.runs(path, experiments=("paper/two",))) == 2
    assert planfile.images(path) == [planfile.Images(runs[0].prepared, "digits", "original", 32)]


def test_packs_are_chunks_of_seeds_of_one_configuration(workspace: Workspace) -> None:
    runs = planfile.runs(plan(workspace, Request(("one",), pack=2)))
    packs = [list(members) for _, members in groupby(runs, key=lambda run: run.pack)]
    assert sorted([run.seed for run in members] for members in packs) == [[0, 1]] * 4 + [[2]] * 4
    for members in packs:
        assert len({(run.method, run.target) for run in members}) == 1
        assert members[0].pack == sha256("\n".join(sorted(run.name for run in members)))[:16]


def test_another_experiment_regroups_only_the_configuration_that_it_extends(workspace: Workspace) -> None:
    alone = {run.pack for run in planfile.runs(plan(workspace, Request(("one",), pack=2)))}
    both = {run.pack for run in planfile.runs(plan(workspace, Request(("one", "paper/two"), pack=2)))}
    assert len(alone) == len(both) == 8
    assert len(alone & both) == 7  # [2] of fedavg on plain becomes [2, 3]


def test_key_covers_what_decides_the_runs_and_not_what_is_finished(workspace: Workspace) -> None:
    request = Request(("one",))
    first = plan(workspace, request)
    for run in planfile.runs(first):
        finish(workspace, run)
    assert planfile.location(workspace, request) == first
    (workspace.root / "experiments" / "paper" / "two.yaml").write_text(TWO.replace("Two", "2"))
    assert planfile.location(workspace, request) == first
    (workspace.root / "reference" / "published.csv").write_text("x")
    assert planfile.location(workspace, request) == first
    assert planfile.location(workspace, Request(("one",), pack=3)) != first
    (workspace.root / "reference" / "presets").mkdir()
    (workspace.root / "reference" / "presets" / "fedavg.yaml").write_text("digits: {}\n")
    assert planfile.location(workspace, request) != first


def test_a_plan_keeps_its_request_and_its_runs_whatever_is_edited(workspace: Workspace) -> None:
    """A comment in another method's preset, an experiment, params.yaml: a job that waits goes on with the plan that it was given."""
    request = Request(("one",), pack=2)
    path = plan(workspace, request)
    before = planfile.runs(path)
    (workspace.root / "reference" / "presets").mkdir()
    (workspace.root / "reference" / "presets" / "moon.yaml").write_text("# another day\n")
    (workspace.root / "experiments" / "one.yaml").write_text(ONE.replace("[0, 1, 2]", "[0, 1]"))
    (workspace.root / "params.yaml").write_text("experiments: [one, paper/two]\n")
    assert planfile.location(workspace, request) != path  # who starts the workflow plans anew
    assert planfile.request(workspace, path) == request
    assert planfile.runs(path) == before
    told = CliRunner().invoke(
        main, ["--root", str(workspace.root), "train", "--plan", str(path), "--pack", before[0].pack]
    )
    assert "older" not in told.output
    failure = json.loads((workspace.root / before[0].directory / "failure.json").read_text())
    assert "the run's partition is not there" in failure["text"]  # so far it came: there are no images here


def test_planning_stamps_packs_whose_runs_are_all_finished(workspace: Workspace) -> None:
    request = Request(("one",), pack=2)
    runs = planfile.runs(plan(workspace, request))
    packs = workspace.results / "packs"
    assert not packs.exists()
    full = next(run.pack for run in runs if sum(other.pack == run.pack for other in runs) == 2)
    members = [run for run in runs if run.pack == full]
    finish(workspace, members[0])
    plan(workspace, request)
    assert not packs.exists()
    finish(workspace, members[1])
    again = planfile.runs(plan(workspace, request), pack=full)
    assert {run.name for run in again} == {run.name for run in members}
    assert [path.stem for path in packs.iterdir()] == [full]
    assert set(json.loads((packs / f"{full}.json").read_text())["finished"]) == {run.name for run in members}


def test_by_version_the_latest_finished_run_of_other_code_is_taken(workspace: Workspace) -> None:
    """Two codes finished the first run, one began the second; the third is finished by the installed code as well."""
    request = Request(("paper/two", "one"), pack=2, rerun="version")
    first, second, third, *rest = planfile.runs(plan(workspace, request))
    assert not any(run.of_other_code for run in (first, second, third, *rest))

    def by(run: Run, code: str) -> Run:
        return run._replace(code=code, directory=f"{Path(run.directory).parent}/{run.digest}-{code}")

    for age, run in enumerate((by(first, "0ther001"), by(first, "0ther002"), by(third, "0ther001"), third)):
        finish(workspace, run)
        os.utime(workspace.root / run.directory / "summary.json", (1e9 - age, 1e9 - age))
    (workspace.root / by(second, "0ther001").directory).mkdir(parents=True)

    before = planfile.last(workspace, request)
    path = ready(workspace, request)
    assert before and before != path  # jobs that hold the plan from before keep it as it is
    assert [run.name for run in planfile.runs(before) if run.digest == first.digest] == [first.name]
    assert planfile.last(workspace, request) == path
    again = {run.digest: run for run in planfile.runs(path)}
    assert again[first.digest].code == "0ther001" and again[first.digest].installed == first.code
    assert again[first.digest].directory == by(first, "0ther001").directory
    states = [workspace.run_at(again[run.digest].directory).outcome() for run in (first, second, third)]
    assert states == [State.FINISHED, State.MISSING, State.FINISHED]
    assert [again[run.digest].of_other_code for run in (first, second, third)] == [True, False, False]
    assert (workspace.results / "packs" / f"{again[first.digest].pack}.json").is_file()
    told = describe(workspace, again[first.digest])
    assert told == ("finished", f"by other code; installed is {first.code}")
    asked = ["--root", str(workspace.root), "status", "one", "paper/two", "--runs", "--rerun", "version"]
    assert f"{again[first.digest].directory}  {told[1]}" in CliRunner().invoke(main, asked).output

    shown = CliRunner().invoke(
        main, ["--root", str(workspace.root), "plan", "one", "paper/two", "--rerun", "version"]
    )
    assert "by other code than is installed: 1 (rerun: version)" in shown.output
    by_code = planfile.runs(plan(workspace, Request(("paper/two", "one"), pack=2)))
    assert [run.name for run in by_code if run.digest == first.digest] == [first.name]


def test_stamp_waits_for_what_a_retry_can_mend_and_names_what_it_cannot(workspace: Workspace) -> None:
    first, second = planfile.runs(plan(workspace, Request(("paper/two",))))
    finish(workspace, first)
    failure = {"kind": "diverged", "text": "loss is NaN", "retry": True}
    write_json(workspace.root / second.directory / "failure.json", failure)
    stamp, members = workspace.pack(first.pack), [workspace.run_at(run.directory) for run in (first, second)]
    assert not stamp.write(members)
    write_json(workspace.root / second.directory / "failure.json", failure | {"retry": False})
    assert stamp.write(members)
    told = json.loads((workspace.results / "packs" / f"{first.pack}.json").read_text())
    assert list(told["finished"]) == [first.name]
    assert told["failed"][second.name]["text"] == "loss is NaN"
    assert forget_failures(members, [stamp]) == 1
    assert not list((workspace.results / "packs").iterdir())


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"experiments": ["one"], "pakc": 1}, "unknown key 'pakc'\n.*'pack'"),
        ({"experiments": []}, "names no experiment"),
        ({"experiments": ["one"], "pack": 0}, "'pack' cannot be 0"),
        ({"experiments": ["one"], "pack": True}, "'pack' cannot be True"),
        (
            {"experiments": ["one"], "hours": 0.5},
            "'hours' cannot be 0.5\n.*most hours that a job asks a cluster for.*1 or more",
        ),
        ({"experiments": ["one"], "device": "tpu"}, "Valid: cpu, cuda"),
        ({"experiments": ["one"], "rerun": "never"}, "Valid: code, version"),
    ],
)
def test_parameters_are_checked(config: dict[str, object], message: str) -> None:
    with pytest.raises(FedshiftError, match=message):
        Request.of(config, Path())


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
    assert estimate.mem_mb == round(2000 + 3 * checkpoint)
    assert estimate.kept_mb == round(3 * row_mb) + 1  # last, first and later best
    assert estimate.disk_mb == round(2 * checkpoint) + estimate.kept_mb  # the old one and the new


def test_disk_is_what_stays_and_the_largest_checkpoints_of_one_job(workspace: Workspace) -> None:
    one = planfile.runs(plan(workspace, Request(("one",))))[0]
    runs = [one._replace(disk_mb=disk, kept_mb=kept) for disk, kept in ((1100, 100), (2300, 300), (700, 200))]
    assert job.disk_mb(runs, 1) == 600 + 2000
    assert job.disk_mb(runs, 2) == 600 + 2000 + 1000
    assert job.disk_mb([], 2) == 0


def test_cost_of_slower_methods_and_of_rendered_images(workspace: Workspace) -> None:
    spec = RunSpec.model_validate_json(planfile.runs(plan(workspace, Request(("paper/two",))))[0].spec)
    plain = cost(workspace, spec, "cpu")
    (workspace.root / "benchmarks").mkdir(exist_ok=True)
    (workspace.root / "benchmarks" / "methods.csv").write_text(
        "method,factor,passes,outside\nditto,2.0,2.0,0\nlocal,0.9,1.0,0\nccst,1.0,1.0,0\n"
    )
    factors.cache_clear()
    trained, evaluated = 10 * 2 * 0.8 * 1343, 11 * (0.2 * 1343 + 454)
    per_minute = 60 * speed(workspace, spec, "cpu").images_per_second

    def of(name: str) -> Cost:
        return cost(workspace, spec.model_copy(update={"method": Method(name=name)}), "cpu")

    assert of("local").minutes == plain.minutes  # the limit is never below FedAvg's
    assert of("ditto").images == plain.images
    assert of("ditto").minutes == pytest.approx(plain.minutes + trained / per_minute, abs=0.01)
    assert of("ccst").images == round(3 * trained + evaluated)
    assert of("ccst").minutes == pytest.approx(plain.minutes + 2 * trained / per_minute, abs=0.01)


def test_a_centralised_run_is_reckoned_with_the_images_that_it_trains_on(project: Path) -> None:
    """StableFDG's Table 4a: a third of its clients takes part, and one model on all data knows nothing of that."""
    value = {
        "data": {"dataset": "digits", "target": "ink"}, "model": {"name": "digits_cnn"},
        "method": {"name": "mixstyle", "params": {"centralized": True}},
        "local": {"batch": 64, "lr": 0.01}, "federation": {"rounds": 2, "participation": 0.34},
    }  # fmt: skip
    here, spec = Workspace(project), resolve(parse(value, "test"))
    partition(here, spec)
    trained = train(here, spec, Machine(torch.device("cpu")))["costs"]["images"]
    sizes = dict(counts(here, "digits", "original").images)
    held_out = sizes.pop("ink")
    evaluated = (2 + 1) * (0.2 * sum(sizes.values()) + held_out)
    assert cost(here, spec, "cpu").images == pytest.approx(trained + evaluated, rel=0.005)


def test_packs_are_cut_where_a_job_would_ask_for_more_than_the_hours(workspace: Workspace) -> None:
    """A pack asked for up to 74.5 days: ten seeds, one after the other."""
    sizes = {}
    (workspace.root / "experiments" / "one.yaml").write_text(ONE.replace("rounds: 10", "rounds: 900"))
    for hours, parallel in ((24, 1), (1, 1), (1, 2)):
        request = Request(("one",), hours=hours, parallel=parallel)
        runs = planfile.runs(plan(workspace, request))
        packs = [list(members) for _, members in groupby(runs, key=lambda run: run.pack)]
        sizes[hours, parallel] = sorted({len(members) for members in packs})
        assert all(job.minutes(members, parallel, hours) <= 60 * hours for members in packs)
        assert not any(job.longer(members, parallel, hours) for members in packs)
    one = runs[0].minutes
    assert 5 + 2 * one < 60 < 5 + 2 * 2 * one  # one fits into an hour, two do not
    assert sizes == {(24, 1): [3], (1, 1): [1], (1, 2): [1, 2]}


def test_a_run_longer_than_a_job_stands_alone_and_is_told(workspace: Workspace) -> None:
    (workspace.root / "experiments" / "one.yaml").write_text(ONE.replace("rounds: 10", "rounds: 20000"))
    request = Request(("one",), hours=2)
    runs = planfile.runs(plan(workspace, request))
    assert len({run.pack for run in runs}) == len(runs)
    assert runs[0].minutes > 120
    assert [job.minutes(runs[:1], 1, 2, attempt) for attempt in (1, 2, 3)] == [120] * 3
    told = CliRunner().invoke(main, ["--root", str(workspace.root), "plan", "one", "--hours", "2"]).output
    assert "12 runs may outlast a job of 2 hours (params.yaml: hours) and rely on their checkpoints" in told
    told = CliRunner().invoke(main, ["--root", str(workspace.root), "plan", "one", "--hours", "48"]).output
    assert "outlast" not in told


def test_estimates_that_nothing_was_measured_for_are_marked(workspace: Workspace) -> None:
    told = CliRunner().invoke(main, ["--root", str(workspace.root), "plan", "one"]).output
    assert told.splitlines()[1].split()[6].startswith("~")
    assert (
        "~ Not measured on cpu, estimated: digits_cnn at 32 px in fp32 (from the roofline of Xeon core, 4 times, assumed)."
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
    assert counted.name == run.name
    spec = RunSpec.model_validate_json(run.spec)
    rounds, epochs = spec.federation.rounds, spec.local.epochs
    assert counted.images == round(rounds * epochs * 0.8 * 300 + (rounds + 1) * (0.2 * 300 + 10))
    assert run.images == round(
        rounds * epochs * 0.8 * 10_000 + (rounds + 1) * 0.2 * 10_000
    )  # four domains of 2500
    told = CliRunner().invoke(main, ["--root", str(workspace.root), "plan", "one"]).output
    assert "a guess. Run: fedshift fetch" not in told


def test_published_counts_are_taken_before_images_are_there(workspace: Workspace) -> None:
    known = counts(workspace, "domainnet", "original")
    assert sum(known.images.values()) == 596_010
    assert (len(known.images), known.classes, known.source) == (6, 345, "published")
    assert sum(counts(workspace, "domainnet", "cleaned").images.values()) == 586_575


def test_status_tells_finished_running_failed_and_missing_apart(workspace: Workspace) -> None:
    runs = planfile.runs(plan(workspace, Request(("one",))))
    finished, running, failed, dead, missing = runs[:5]
    finish(workspace, finished)
    writer = {"host": socket.gethostname(), "pid": os.getpid(), "job": None}
    write_json(workspace.root / running.directory / "lock.json", writer)
    write_json(
        workspace.root / dead.directory / "lock.json", writer | {"pid": 2**22 + 1}
    )  # above the kernel's largest
    write_json(
        workspace.root / failed.directory / "failure.json",
        {"kind": "diverged", "text": "loss is NaN", "retry": False},
    )
    assert describe(workspace, finished) == ("finished", "")
    assert describe(workspace, running) == ("running", f"{socket.gethostname()}:{os.getpid()}")
    assert describe(workspace, failed) == ("failed", "diverged: loss is NaN (a retry does not help)")
    assert describe(workspace, dead) == ("missing", "")
    assert describe(workspace, missing) == ("missing", "")
    shown = CliRunner().invoke(main, ["--root", str(workspace.root), "status", "one"]).output.splitlines()
    assert shown[1].split() == ["one", "12", "1", "1", "1", "9"]
    assert any(failed.directory in line and "loss is NaN" in line for line in shown)


def test_plan_prints_what_there_is_to_do(workspace: Workspace) -> None:
    run = planfile.runs(plan(workspace, Request(("one", "paper/two"))))[0]
    finish(workspace, run)
    shown = (
        CliRunner()
        .invoke(main, ["--root", str(workspace.root), "plan", "one", "paper/two"])
        .output.splitlines()
    )
    assert shown[0].split() == ["experiment", "runs", "done", "packs", "images", "hours", "disk"]
    assert shown[1].split()[:3] == ["one", "12", "1"]
    assert shown[3].startswith("all, each run once     13      1")
    names = (
        CliRunner()
        .invoke(main, ["--root", str(workspace.root), "plan", "one", "--print", "runs"])
        .output.split()
    )
    assert len(names) == 12
    assert names == sorted(names)
