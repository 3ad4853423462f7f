"""Faults of a cluster, each over a small experiment of its own: in the end tables, figures, metrics and weights are those of
an undisturbed run on this machine, to the last bit. Nobody repairs anything by hand but as docs/cluster.md says; at most
snakemake is started again.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from fedshift.common.files import holder
from tests.faults.disk import mounted, why_none
from tests.faults.processes import end_all, until
from tests.slurm.cluster import Cluster, running
from tests.slurm.results import assert_same, finished
from tests.slurm.test_slurm import HASTE
from tests.slurm.test_storm import training
from tests.workflow.checkout import Checkout

pytestmark = [pytest.mark.slurm, pytest.mark.slow, pytest.mark.timeout(3000)]
FORGETS = (
    20  # seconds until the controller forgets an ended job; below 3 * 5 of HASTE the plugin would ask sacct
)
RUNS = 4
EXPERIMENT = """\
title: "Faults"
protocol: digits
spec:
  data: {input_px: 16}
  federation: {rounds: 24}
  local: {epochs: 1}
  evaluation: {every: 6}
methods: {fedavg: , fdse: }
axes: {target: [plain], seed: [0, 1]}
tables: {main: {columns: [target]}}
"""


@dataclass
class Place:
    """A folder in which the experiment goes through Slurm."""

    cluster: Cluster
    there: Checkout
    log: Path

    @property
    def root(self) -> Path:
        return self.there.root

    def begin(self, *arguments: str) -> subprocess.Popen[str]:
        with self.log.open("a") as output:
            return self.there.start(
                "all", *HASTE, *arguments, profile="slurm", output=output, FEDSHIFT_CHECKPOINT_SECONDS="1", **self.cluster.environment
            )  # fmt: skip

    def end(self, command: subprocess.Popen[str]) -> int:
        return command.wait(timeout=1500)

    def again(self) -> str:
        """Start snakemake, wait until it has ended well: what this start said."""
        before = len(self.said())
        assert self.end(self.begin()) == 0, self.said()
        return self.said()[before:]

    def said(self) -> str:
        return self.log.read_text() if self.log.exists() else ""

    def submitted(self) -> int:
        """How many jobs, further attempts among them."""
        return self.said().count("has been submitted with SLURM jobid")

    def trained(self, count: int = 1) -> dict[str, Path]:
        """Slurm's job -> the run that it trains and that has a checkpoint, once there are `count`."""
        assert until(lambda: len(training(self.root)) >= count, 900), self.said()
        return training(self.root)

    def runs(self) -> list[Path]:
        return [*finished(self.root).values()]

    def files(self) -> dict[str, bytes]:
        """Every file of the tables and figures."""
        folders = [self.root / "results" / kind / "t1" for kind in ("tables", "figures")]
        files = [path for folder in folders for path in sorted(folder.rglob("*")) if path.is_file()]
        return {path.name: path.read_bytes() for path in files if not path.name.startswith(".")}


def process(run: Path) -> int:
    """The process that trains a run."""
    who = holder(run / "lock.json")
    assert who
    return who.pid


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with running(lambda folder: Cluster(folder, forgets=FORGETS)) as made:
        yield made


@pytest.fixture(scope="module")
def calm(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Place:
    """The experiment, undisturbed and without Slurm."""
    folder = tmp_path_factory.mktemp("calm")
    made = Checkout.made(folder / "there", {"t1": EXPERIMENT}, "experiments: [t1]\npack: 1\n")
    made.run("all")
    return Place(cluster, made, folder / "log")


def new(cluster: Cluster, calm: Place, folder: Path) -> Place:
    """A folder in which nothing was trained; the images are those of `calm`."""
    made = Checkout.made(folder / "there", {"t1": EXPERIMENT}, "experiments: [t1]\npack: 1\n")
    shutil.copytree(calm.root / "data", made.root / "data")
    return Place(cluster, made, folder / "log")


def assert_identical(place: Place, calm: Place) -> None:
    assert_same(calm.root, place.root)
    assert place.files() == calm.files() and len(place.files()) > 3


# While it trains


def starters_killed(place: Place) -> None:
    """Slurm takes the job for running until its time limit, while the run trains on and ends."""
    command = place.begin("--set-resources", "train:runtime=3")
    job = min(place.trained())
    steps = [
        int(entry.name)
        for entry in Path("/proc").iterdir()
        if entry.name.isdigit() and _command(entry).startswith(f"slurmstepd: [{job}.")
    ]
    assert steps
    for pid in steps:
        os.kill(pid, signal.SIGKILL)
    assert place.end(command) == 0, place.said()


def _command(process: Path) -> str:
    with contextlib.suppress(OSError):
        return (process / "cmdline").read_text()
    return ""


def short_of_memory(place: Place) -> None:
    command = place.begin()
    run = min(place.trained().values())
    subprocess.run(["prlimit", "--pid", str(process(run)), "--as=100000000"], check=True)
    assert place.end(command) == 0, place.said()
    assert place.submitted() == RUNS + 1


def stopped(place: Place) -> None:
    command = place.begin()
    job, run = min(place.trained().items())
    pid = process(run)
    place.cluster.call("scancel", "--signal=STOP", job)
    stat = Path(f"/proc/{pid}/stat")
    assert until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T", 30)
    time.sleep(20)
    place.cluster.call("scancel", "--signal=CONT", job)
    assert place.end(command) == 0, place.said()
    assert place.submitted() == RUNS


def killed_while_it_writes(place: Place) -> None:
    command = place.begin()
    run = min(place.trained().values())
    pid = process(run)
    end = time.monotonic() + 60
    while not [*run.glob(".*.tmp")]:
        assert time.monotonic() < end
    os.kill(pid, signal.SIGKILL)
    assert [*run.glob(".*.tmp")]
    assert place.end(command) == 0, place.said()
    assert place.submitted() == RUNS + 1
    assert not [*run.glob(".*.tmp")]


def partition_down(place: Place) -> None:
    """While another attempt is submitted."""
    command = place.begin()
    run = min(place.trained().values())
    place.cluster.call("scontrol", "update", "PartitionName=gpu", "State=DOWN")
    try:
        os.kill(process(run), signal.SIGKILL)
        assert until(lambda: "PD" in place.cluster.call("squeue", "-h", "-o", "%t"), 300)
        time.sleep(50)
    finally:
        place.cluster.call("scontrol", "update", "PartitionName=gpu", "State=UP")
    assert place.end(command) == 0, place.said()


def controller_started_anew(place: Place) -> None:
    """Its jobs are unknown to it."""
    command = place.begin()
    place.trained(2)
    place.cluster.stop_daemon("slurmctld", signal.SIGKILL)
    place.cluster.call("slurmctld", "-c")
    assert place.end(command) == 0, place.said()


def plan_deleted(place: Place) -> None:
    command = place.begin()
    place.trained(RUNS)
    for path in (place.root / "results" / "plan").iterdir():
        path.unlink()
    place.end(command)
    assert len(place.runs()) == RUNS
    assert "rule train" not in place.again()


def two_folders_one_results(place: Place) -> None:
    """Each run is trained once."""
    other = Checkout.made(place.root.parent / "other", {"t1": EXPERIMENT}, "experiments: [t1]\npack: 1\n")
    for name in ("results", "data"):
        (place.root / name).mkdir(exist_ok=True)
        (other.root / name).symlink_to(place.root / name)
    second = Place(place.cluster, other, place.root.parent / "other.log")
    # one makes a table anew while the other looks for it: so this waits as long as users do
    commands = [one.begin("--latency-wait", "60") for one in (place, second)]
    place.trained()
    began = {path: path.stat().st_mtime_ns for path in place.root.glob("results/runs/**/spec.json")}
    try:
        assert place.end(commands[0]) == 0, place.said()
        assert second.end(commands[1]) == 0, second.said()
    finally:
        end_all(other.root)
    assert {path: path.stat().st_mtime_ns for path in began} == began
    assert len(place.runs()) == RUNS


def no_inodes(place: Place) -> None:
    """A file system without room for a file: all attempts fail; there is room, and it is started again."""
    results = place.root / "results"
    results.mkdir()
    with mounted(results, "size=256m,nr_inodes=45"):
        assert place.end(place.begin()) != 0
        logs = (place.root / "logs" / "train").rglob("*.log")
        assert any("No space left" in path.read_text() for path in logs)
        subprocess.run(["mount", "-o", "remount,nr_inodes=100000", str(results)], check=True)
        place.again()
        shutil.copytree(results, place.root / "kept", symlinks=True)
    results.rmdir()
    (place.root / "kept").rename(results)


def too_little_time(place: Place) -> None:
    """A time limit below Slurm's warning of two minutes before it."""
    place.end(place.begin("--set-resources", "train:runtime=1"))
    place.again()


def snakemake_stands_still(place: Place) -> None:
    """Until Slurm has forgotten the jobs, which ended well."""
    command = place.begin()
    place.trained(RUNS)
    os.kill(command.pid, signal.SIGSTOP)
    assert until(lambda: len(place.runs()) == RUNS, 900)
    assert until(lambda: not place.cluster.call("squeue", "-h", "-t", "all"), 600)
    time.sleep(1)
    os.kill(command.pid, signal.SIGCONT)
    assert place.end(command) == 0, place.said()
    assert place.submitted() == RUNS


WHILE_IT_TRAINS: tuple[Callable[[Place], None], ...] = (
    starters_killed,
    short_of_memory,
    stopped,
    killed_while_it_writes,
    partition_down,
    controller_started_anew,
    plan_deleted,
    two_folders_one_results,
    no_inodes,
    too_little_time,
    snakemake_stands_still,
)


@pytest.mark.parametrize("fault", WHILE_IT_TRAINS, ids=lambda fault: fault.__name__)
def test_a_fault_while_it_trains(
    fault: Callable[[Place], None], cluster: Cluster, calm: Place, tmp_path: Path
) -> None:
    if fault is no_inodes and (reason := why_none(tmp_path / "small")):
        pytest.skip(reason)
    place = new(cluster, calm, tmp_path)
    try:
        fault(place)
    finally:
        end_all(place.root)
        for job in cluster.call("squeue", "-h", "-o", "%i").split():
            cluster.call("scancel", job, check=False)
    assert_identical(place, calm)


# After it has ended


@pytest.fixture(scope="module")
def ended(cluster: Cluster, calm: Place, tmp_path_factory: pytest.TempPathFactory) -> Place:
    place = new(cluster, calm, tmp_path_factory.mktemp("ended"))
    place.again()
    return place


def run_lost(place: Place) -> None:
    shutil.rmtree(place.runs()[0])
    assert place.again().count("rule train") == 1


def metrics_lost(place: Place) -> None:
    (place.runs()[0] / "metrics.parquet").unlink()
    assert place.again().count("rule train") == 1


def weights_lost(place: Place) -> None:
    """No table needs them."""
    weights = place.runs()[0] / "weights"
    weights.rename(place.root / "aside")
    assert "rule train" not in place.again()
    (place.root / "aside").rename(weights)


def records_of_snakemake_lost(place: Place) -> None:
    shutil.rmtree(place.root / ".snakemake")
    assert "rule train" not in place.again()


def dated_ahead(place: Place) -> None:
    ahead = time.time() + 2 * 86_400
    stamps = [*(place.root / "results" / "packs").rglob("*.json")]
    for path in (*stamps, place.root / "experiments" / "t1.yaml", place.root / "reference" / "published.csv"):
        os.utime(path, (ahead, ahead))
    assert "rule train" not in place.again()


def image_damaged(place: Place) -> None:
    """And one run is asked for again: the images are made again before it."""
    (images,) = (place.root / "data" / "prepared").rglob("images.npy")
    before = images.read_bytes()
    images.chmod(0o644)
    images.write_bytes(before[:-1] + bytes([before[-1] ^ 1]))
    shutil.rmtree(place.runs()[0])
    place.end(place.begin())
    place.again()
    (images,) = (place.root / "data" / "prepared").rglob("images.npy")
    assert images.read_bytes() == before


def number_falsified(place: Place) -> None:
    """A table that somebody has edited: nothing notices it, and docs/cluster.md names the command that writes it again."""
    table = place.root / "results" / "tables" / "t1" / "table.csv"
    table.write_text(table.read_text().replace("9", "8"))
    place.again()
    place.there.python("-m", "fedshift", "table", "t1")


AFTER_IT_ENDED: tuple[Callable[[Place], None], ...] = (
    run_lost,
    metrics_lost,
    weights_lost,
    records_of_snakemake_lost,
    dated_ahead,
    image_damaged,
    number_falsified,
)


@pytest.mark.parametrize("fault", AFTER_IT_ENDED, ids=lambda fault: fault.__name__)
def test_a_fault_after_it_has_ended(fault: Callable[[Place], None], ended: Place, calm: Place) -> None:
    fault(ended)
    assert_identical(ended, calm)
