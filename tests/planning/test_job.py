"""What one job asks a cluster for, and the packs that its hours allow."""

from __future__ import annotations

from itertools import groupby

from click.testing import CliRunner

from fedshift.cli import main
from fedshift.planning import job, planfile
from fedshift.planning.plan import plan
from fedshift.planning.request import Request
from fedshift.storage.workspace import Workspace
from tests.planning.conftest import ONE


def test_disk_is_what_stays_and_the_largest_checkpoints_of_one_job(workspace: Workspace) -> None:
    one = planfile.runs(plan(workspace, Request(("one",))))[0]
    runs = [one._replace(disk_mb=disk, kept_mb=kept) for disk, kept in ((1100, 100), (2300, 300), (700, 200))]
    assert job.disk_mb(runs, 1) == 600 + 2000
    assert job.disk_mb(runs, 2) == 600 + 2000 + 1000
    assert job.disk_mb([], 2) == 0


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


def test_memory_and_minutes_grow_with_each_attempt_within_the_partition(workspace: Workspace) -> None:
    """They grew past what the partition gives: such a job waited for ever."""
    runs = planfile.runs(plan(workspace, Request(("one",))))[:1]
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
    request = Request(("one",), hours=2)
    runs = planfile.runs(plan(workspace, request))
    assert len({run.pack for run in runs}) == len(runs)
    assert runs[0].minutes > 120
    assert [job.minutes(runs[:1], 1, 2, attempt) for attempt in (1, 2, 3)] == [120] * 3
    told = CliRunner().invoke(main, ["--root", str(workspace.root), "plan", "one", "--hours", "2"]).output
    assert "12 runs may outlast a job of 2 hours (params.yaml: hours) and rely on their checkpoints" in told
    told = CliRunner().invoke(main, ["--root", str(workspace.root), "plan", "one", "--hours", "48"]).output
    assert "outlast" not in told
