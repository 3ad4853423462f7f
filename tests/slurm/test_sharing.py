"""Jobs that share a GPU: each asks for a part of one, as slurm/cluster.yaml says."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from fedshift import doctor
from fedshift.common.files import holder
from fedshift.planning.request import Request
from fedshift.storage.workspace import Workspace
from tests.faults.processes import end_all, until
from tests.slurm.cluster import Cluster, running
from tests.slurm.results import finished
from tests.slurm.test_slurm import HASTE
from tests.slurm.test_storm import state, training
from tests.workflow.checkout import Checkout

pytestmark = pytest.mark.slurm
SHARED = """\
title: "Shared"
protocol: digits
spec:
  data: {input_px: 16}
  partition: {fractions: [0.2, 0.1, 0.7]}
  federation: {rounds: 60}
  local: {epochs: 1}
  evaluation: {every: 50}
methods: {fedavg: , fedbn: , fedprox: , ditto: }
axes: {target: [texture], seed: [0]}
tables: {main: {columns: [target]}}
"""


@pytest.fixture(params=["shard:8", "mps:200"])
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """One node with two pretended GPUs, each given out in four shards, or in hundredths."""
    with running(lambda folder: Cluster(folder, nodes=1, share=request.param)) as made:
        yield made


def frozen(root: Path, count: int) -> dict[str, int]:
    """Stop `count` processes that train and have a checkpoint, so that they obey SIGKILL alone: Slurm's job -> process."""
    stopped: dict[str, int] = {}

    def all_stopped() -> bool:
        for job, run in training(root).items():
            if len(stopped) < count and job not in stopped and (who := holder(run / "lock.json")):
                os.kill(who.pid, signal.SIGSTOP)
                stopped[job] = who.pid
        return len(stopped) == count

    assert until(all_stopped, 400)
    return stopped


def visible(pid: int) -> str | None:
    """CUDA_VISIBLE_DEVICES of a process."""
    words = Path(f"/proc/{pid}/environ").read_text().split("\0")
    return next((word.partition("=")[2] for word in words if word.startswith("CUDA_VISIBLE_DEVICES=")), None)


def test_four_jobs_train_side_by_side_on_one_gpu(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of whole GPUs the node has two, and two jobs would begin."""
    there = Checkout.made(tmp_path / "there", {"demo": SHARED}, "experiments: [demo]\npack: 1\n")
    own = there.root / "slurm" / "cluster.yaml"
    for name, value in cluster.environment.items():
        monkeypatch.setenv(name, value)

    def told() -> list[tuple[str, str]]:
        asked = Request(("demo",), device="cuda")
        return [(finding.state, finding.text) for finding in doctor.slurm(Workspace(there.root), asked)]

    own.write_text("gres: tape:1\n")
    assert told()[-1][0] == "wrong" and "has no 'tape'" in told()[-1][1]
    part = "shard:1" if cluster.share.startswith("shard") else "mps:25"
    own.write_text(f"gres: {part}\n")
    assert [verdict for verdict, _ in told()] == ["ok"]

    log = tmp_path / "snakemake.log"
    with log.open("w") as output:
        command = there.start(
            "metrics", *HASTE, profile="slurm", output=output, FEDSHIFT_CHECKPOINT_SECONDS="0.3"
        )
        try:
            stopped = frozen(there.root, 4)
            asked = {job: state(cluster, job)["TresPerNode"] for job in stopped}
            assert set(asked.values()) == {f"gres:{part}"}, asked
            assert [visible(pid) for pid in stopped.values()] == ["0"] * 4
            for pid in stopped.values():
                os.kill(pid, signal.SIGCONT)
            assert command.wait(timeout=500) == 0, log.read_text()
        finally:
            end_all(there.root)
    assert len(finished(there.root)) == 4
