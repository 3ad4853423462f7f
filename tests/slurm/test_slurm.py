"""The small experiment through `snakemake --profile slurm`, on a real Slurm."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fedshift.planning import planfile
from tests.faults.processes import until
from tests.slurm.cluster import Cluster
from tests.slurm.results import assert_same, finished
from tests.workflow.checkout import Checkout

pytestmark = pytest.mark.slurm
HASTE = ["--slurm-init-seconds-before-status-checks", "5", "--latency-wait", "5"]
EXPERIMENT = """\
title: "Small"
protocol: digits
spec: {federation: {rounds: 3}, local: {epochs: 1}}
methods: {fedavg: , fedbn: , scaffold: }
axes: {target: [texture], seed: [0, 1]}
tables: {main: {columns: [target]}}
"""


WAITING = """\
title: "Waiting"
protocol: digits
spec: {federation: {rounds: 1}, local: {epochs: 1}}
methods: {fedavg: , fedprox: , moon: }
axes: {target: [texture], seed: [0]}
tables: {main: {columns: [target]}}
"""


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """The small experiment, trained on this machine one run after the other."""
    made = Checkout.made(tmp_path_factory.mktemp("local"), {"demo": EXPERIMENT}, "experiments: [demo]\n")
    made.run("metrics")
    return made


def test_dry_run_needs_no_slurm(tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("bash", "which"):
        (programs / name).symlink_to(shutil.which(name) or "")
    clone = Checkout.made(tmp_path, {"demo": EXPERIMENT}, "experiments: [demo]\npack: 2\n")
    done = clone.snakemake("--dry-run", profile="slurm", PATH=str(programs))
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("rule train:") == 3


def test_slurm_trains_the_same_numbers(cluster: Cluster, local: Checkout, tmp_path: Path) -> None:
    """Packs of two, both at once: other processes, other nodes, the same weights and metrics."""
    (cluster.folder / "plans").unlink(missing_ok=True)
    there = Checkout.made(tmp_path, {"demo": EXPERIMENT}, "experiments: [demo]\npack: 2\nparallel: 2\n")
    shutil.copy(there.root / "slurm" / "cluster.example.yaml", there.root / "slurm" / "cluster.yaml")
    done = there.snakemake("metrics", *HASTE, profile="slurm", **cluster.environment)
    assert done.returncode == 0, done.stdout
    assert len(finished(there.root)) == 6
    assert_same(local.root, there.root)
    environments = [
        json.loads((run / "environment.json").read_text()) for run in finished(there.root).values()
    ]
    assert {environment["threads"] for environment in environments} == {1}
    told = [line.split() for line in (cluster.folder / "plans").read_text().splitlines()]
    assert {Path(plan) for _, plan in told} == {there.plan}
    assert len({job for job, _ in told}) == 4  # three packs and the images
    assert len(list((there.root / "results" / "plan").glob("*.json"))) == 1  # no job made a plan of its own
    assert all((there.root / run.directory / "summary.json").is_file() for run in planfile.runs(there.plan))


@pytest.fixture
def down(cluster: Cluster) -> Iterator[None]:
    """The partition takes jobs and begins none, until it is set up again."""
    cluster.call("scontrol", "update", "PartitionName=gpu", "State=DOWN")
    yield
    cluster.call("scontrol", "update", "PartitionName=gpu", "State=UP")


def edited_while_jobs_wait(cluster: Cluster, there: Checkout, edit: Callable[[], None]) -> tuple[int, str]:
    """Three jobs wait, something is edited, then they are trained, each tried once: status and output of snakemake."""
    there.run("images", "partitions")
    job = there.start("metrics", *HASTE, "--retries", "0", profile="slurm", **cluster.environment)
    assert until(lambda: cluster.call("squeue", "-h", "-t", "PD", "-o", "%i").count("\n") == 3, 120)
    edit()
    cluster.call("scontrol", "update", "PartitionName=gpu", "State=UP")
    output, _ = job.communicate(timeout=300)
    return job.returncode, output


def methods(there: Checkout) -> set[str]:
    return {Path(run).parts[1] for run in finished(there.root)}


@pytest.mark.usefixtures("down")
def test_jobs_that_wait_go_on_with_their_plan_whatever_else_is_edited(
    cluster: Cluster, tmp_path: Path
) -> None:
    """Each of these edits made every waiting job refuse, and use up its attempts."""
    there = Checkout.made(tmp_path, {"demo": WAITING, "more": WAITING}, "experiments: [demo]\n")

    def edit() -> None:
        there.append("reference/presets/feddyn.yaml", "# another day\n")
        there.append("src/fedshift/methods/feddyn.py", "CHANGED = 1\n")
        (there.root / "params.yaml").write_text("experiments: [demo, more]\nhours: 12\npack: 3\n")
        there.edit("experiments/demo.yaml", "moon: }", "moon: , feddyn: }")

    status, output = edited_while_jobs_wait(cluster, there, edit)
    assert status == 0, output
    assert methods(there) == {"fedavg", "fedprox", "moon"}
    before = there.plan
    assert there.to_train("all") == ["feddyn"]  # who starts the workflow again asks for what is declared now
    assert there.plan != before


@pytest.mark.usefixtures("down")
def test_a_job_whose_method_has_another_version_since_it_was_planned_refuses(
    cluster: Cluster, tmp_path: Path
) -> None:
    there = Checkout.made(tmp_path, {"demo": WAITING}, "experiments: [demo]\n")

    def edit() -> None:
        there.append("src/fedshift/methods/moon.py", "MOON.version += 1\n")

    status, _ = edited_while_jobs_wait(cluster, there, edit)
    assert status != 0
    assert methods(there) == {"fedavg", "fedprox"}
    logs = "".join(path.read_text() for path in (there.root / "logs" / "train").rglob("*.log"))
    assert logs.count("the code has changed since this was planned") == 1
