"""What a run is estimated to cost, and what one job asks a cluster for: by hand, by measurement, by a guess."""

from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from fedshift.cli import main
from fedshift.common.errors import FedshiftError
from fedshift.common.files import write_json
from fedshift.planning import job, planfile
from fedshift.planning.costs import cost, counts, measured, plain_macs, speed
from fedshift.planning.plan import plan
from fedshift.planning.request import Request
from fedshift.spec import RunSpec
from fedshift.spec.resolve import resolve
from fedshift.storage.workspace import Workspace
from fedshift.testing import toys
from tests.planning.conftest import ONE


def test_cost_by_hand(workspace: Workspace) -> None:
    spec = RunSpec.model_validate_json(
        planfile.runs(plan(workspace, Request(experiments=("paper/two",))))[0].spec
    )
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


FOLDER = """\
title: Folder
protocol: digits
spec: {data: {dataset: folder, release: mine}}
methods: {fedavg: }
axes: {target: [b], seed: [0]}
"""


def test_a_fetched_data_set_is_planned_anew_and_stops_no_job(workspace: Workspace) -> None:
    (workspace.root / "experiments" / "one.yaml").write_text(FOLDER)
    request = Request(experiments=("one",))
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


HEADER = "model,input_px,device,precision,images_per_second,source\n"
SMALL = "digits_cnn,32,cpu,fp32,2000,by hand\n"
LARGE = "alexnet_bn,256,cpu,bf16,80,by hand\n"


def spec(model: str, px: int = 32, method: str = "fedavg", **local: Any) -> RunSpec:
    data = {"input_px": px, "prepare": {"px": px}}
    return resolve(toys.spec(data=data, model={"name": model}, method={"name": method}, local=local))


def rate(root: Path, rows: str, run: RunSpec, device: str = "cpu") -> tuple[float, str, bool]:
    (root / "benchmarks").mkdir(exist_ok=True)
    (root / "benchmarks" / "costs.csv").write_text(HEADER + rows)
    measured.cache_clear()
    found = speed(Workspace(root), run, device)
    return round(found.images_per_second, 3), found.source, found.measured


def test_another_network_is_as_fast_by_its_macs_as_the_nearest_row(tmp_path: Path) -> None:
    small, large = plain_macs("digits_cnn", 32), plain_macs("alexnet_bn", 256)
    lenet, fifty = plain_macs("lenet", 32), plain_macs("resnet50", 224)
    assert lenet < small < large < fifty
    found = rate(tmp_path, SMALL + LARGE.replace("bf16", "fp32"), spec("lenet"))
    assert found == (pytest.approx(2000 * small / lenet, abs=0.001), "digits_cnn at 32 px in fp32", False)
    found = rate(tmp_path, SMALL + LARGE.replace("bf16", "fp32"), spec("resnet50", 224))
    assert found == (pytest.approx(80 * large / fifty, abs=0.001), "alexnet_bn at 256 px in fp32", False)
    # A row of the same precision goes before a nearer one.
    found = rate(tmp_path, SMALL + LARGE, spec("resnet50", 224))
    assert found == (pytest.approx(2000 * small / fifty, abs=0.001), "digits_cnn at 32 px in fp32", False)


def test_a_device_without_rows_is_assumed(tmp_path: Path) -> None:
    digits = spec("digits_cnn", batch=64)
    found = rate(tmp_path, SMALL, digits, "cuda")
    assert found[0] == pytest.approx(2e11 / plain_macs("digits_cnn", 32), abs=0.001)
    assert found[1:] == ("2e+11 multiply-accumulates a second, assumed", False)
    measured_there = SMALL.replace("cpu", "cuda").replace("2000", "90000")
    assert rate(tmp_path, measured_there, digits, "cuda")[::2] == (90000, True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEADER + SMALL + LARGE.replace("80", "fast"), r"costs\.csv, line 3: 'images_per_second': .*'fast'"),
        ("model,device,precision\ndigits_cnn,cpu,fp32\n", r"line 2: 'input_px' is missing"),
    ],
)
def test_a_row_that_cannot_be_read_is_named(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "costs.csv").write_text(text)
    with pytest.raises(FedshiftError, match=message):
        measured(Workspace(tmp_path))


def test_disk_is_what_stays_and_the_largest_checkpoints_of_one_job(workspace: Workspace) -> None:
    one = planfile.runs(plan(workspace, Request(experiments=("one",))))[0]
    runs = [one._replace(disk_mb=disk, kept_mb=kept) for disk, kept in ((1100, 100), (2300, 300), (700, 200))]
    assert job.disk_mb(runs, 1) == 600 + 2000
    assert job.disk_mb(runs, 2) == 600 + 2000 + 1000
    assert job.disk_mb([], 2) == 0


def test_packs_are_cut_where_a_job_would_ask_for_more_than_the_hours(workspace: Workspace) -> None:
    """A pack asked for up to 74.5 days: ten seeds, one after the other."""
    sizes = {}
    (workspace.root / "experiments" / "one.yaml").write_text(ONE.replace("rounds: 10", "rounds: 900"))
    for hours, parallel in ((24, 1), (1, 1), (1, 2)):
        request = Request(experiments=("one",), hours=hours, parallel=parallel)
        runs = planfile.runs(plan(workspace, request))
        packs = [list(members) for _, members in groupby(runs, key=lambda run: run.pack)]
        sizes[hours, parallel] = sorted({len(members) for members in packs})
        assert all(job.minutes(members, parallel, hours) <= 60 * hours for members in packs)
        assert not any(job.longer(members, parallel, hours) for members in packs)
    one = runs[0].minutes
    assert 5 + 2 * one < 60 < 5 + 2 * 2 * one  # one fits into an hour, two do not
    assert sizes == {(24, 1): [3], (1, 1): [1], (1, 2): [1, 2]}


def test_memory_and_minutes_grow_with_each_attempt_within_the_partition(workspace: Workspace) -> None:
    """They grew past what the partition gives: such a job waited for ever."""
    runs = planfile.runs(plan(workspace, Request(experiments=("one",))))[:1]
    memory = [job.mem_mb(runs, 1, attempt) for attempt in (1, 2, 3)]
    assert [mb - 500 for mb in memory] == [times * (memory[0] - 500) for times in (1, 2, 3)]
    assert [job.mem_mb(runs, 1, attempt, most=memory[1]) for attempt in (1, 2, 3)] == [*memory[:2], memory[1]]
    assert job.mem_mb(runs, 1, 2, most=100) == memory[0]  # never less than the runs need
    wanted = [job.minutes(runs, 1, 24, attempt) for attempt in (1, 2, 3)]
    assert wanted == sorted(wanted) and wanted[0] < wanted[2]
    assert [job.minutes(runs, 1, 24, attempt, most=wanted[0]) for attempt in (1, 2, 3)] == [wanted[0]] * 3
    assert job.evaluating(runs, 24, 1, most=3) == 3


def test_a_run_longer_than_a_job_stands_alone_and_is_told(workspace: Workspace) -> None:
    (workspace.root / "experiments" / "one.yaml").write_text(ONE.replace("rounds: 10", "rounds: 20000"))
    request = Request(experiments=("one",), hours=2)
    runs = planfile.runs(plan(workspace, request))
    assert len({run.pack for run in runs}) == len(runs)
    assert runs[0].minutes > 120
    assert [job.minutes(runs[:1], 1, 2, attempt) for attempt in (1, 2, 3)] == [120] * 3
    told = CliRunner().invoke(main, ["--root", str(workspace.root), "plan", "one", "--hours", "2"]).output
    assert "12 runs may outlast a job of 2 hours (params.yaml: hours) and rely on their checkpoints" in told
    told = CliRunner().invoke(main, ["--root", str(workspace.root), "plan", "one", "--hours", "48"]).output
    assert "outlast" not in told
