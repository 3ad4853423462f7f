"""The cluster: the keys of slurm/cluster.yaml, and sick nodes, to which no job is sent. No heavy imports: the
Snakefile needs it, and `workflow/slurm/sbatch` runs it.

A job that fails, but may succeed on a retry, leaves results/nodes/<node>/<pack>.json. The next job of that
pack goes to another node. A node is sick after IN_A_ROW packs that failed because of the machine, with no run
finished on it since. `rm -r results/nodes/<node>` clears its record.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fedshift.common.errors import FedshiftError
from fedshift.common.files import read_whole, write_json
from fedshift.common.processes import answer_of
from fedshift.common.yaml_file import read
from fedshift.planning.request import check, key
from fedshift.storage.rundir import Failure, failure_of
from fedshift.storage.workspace import Workspace

PATH = Path("slurm", "cluster.yaml")
OF_GPUS = ("gres", "gpu_model")


@dataclass(frozen=True)
class Cluster:
    """Settings of this cluster; each key is a resource of Snakemake's Slurm plugin.

    fedshift itself adds GPU, memory, minutes and the warning before the time limit.
    """

    slurm_partition: str | None = key("Partition of jobs; by default the cluster's default partition.", None)
    slurm_account: str | None = key("Account that jobs are charged to.", None)
    qos: str | None = key("Quality of service of jobs.", None)
    constraint: str | None = key("Required features of nodes: `a100`.", None)
    gpu_model: str | None = key("GPU model of jobs: `a100`.", None)
    gres: str | None = key("Part of a GPU per job, if the cluster shares GPUs: `shard:1`, `mps:25`.", None)
    clusters: str | None = key("Names of the clusters to submit to, if several share one Slurm.", None)

    slurm_extra: str | None = key(
        "Additional options of sbatch. They replace the profile's `--signal=TERM@120`, so repeat it here.",
        None,
    )

    @classmethod
    def read(cls, root: Path) -> Cluster:
        """Read the file of the project at `root`; empty if there is none. Raises FedshiftError."""
        path = root / PATH
        config = read(path) if path.is_file() else {}
        check(cls, config, PATH.as_posix())
        if config.get("gres") and config.get("gpu_model"):
            cure = "Leave one of them out; a model's part is written `shard:a100:1`."
            raise FedshiftError(PATH, "'gres' is part of a GPU, 'gpu_model' a whole one", cure)
        return cls(**config)

    @property
    def resources(self) -> dict[str, str]:
        """Resources of every job: the keys that are set, except those of GPUs."""
        known = dataclasses.asdict(self)
        return {name: value for name, value in known.items() if value is not None and name not in OF_GPUS}

    def of_gpus(self, device: str) -> dict[str, str]:
        """Additional resources of a job that computes on `device`: the model of its GPU, or a part of one."""
        known = {name: getattr(self, name) for name in OF_GPUS} if device == "cuda" else {}
        return {name: value for name, value in known.items() if value is not None}


def limits(partition: str | None) -> tuple[int | None, int | None]:
    """Time limit (minutes) of a job of a partition (None: the default one), and memory (MB) of its largest
    node. Of several partitions ("short,long"), the shorter limit.

    Each is None if there is no limit, or Slurm does not answer.
    """
    found = _lines(partition, "-o", "%P|%l|%m")
    minutes = filter(None, (parsed_minutes(limit) for _, limit, _ in found))
    return min(minutes, default=None), max((int(mb.rstrip("+")) for *_, mb in found), default=None)


def _lines(partition: str | None, *options: str) -> list[list[str]]:
    """The cells of sinfo's lines on partitions (None: the default one), which a line begins with."""
    lines = (line.split("|") for line in (answer_of("sinfo", "-h", *options) or "").splitlines())
    ours = partition.split(",") if partition else ()
    return [line for line in lines if (line[0].rstrip("*") in ours if ours else line[0].endswith("*"))]


def parsed_minutes(limit: str) -> int | None:
    """Convert Slurm's [days-]hours:minutes:seconds or minutes:seconds to minutes; None for any other text."""
    if not (parts := re.fullmatch(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)", limit)):
        return None
    days, hours, minutes, _ = (int(part or 0) for part in parts.groups())
    return (days * 24 + hours) * 60 + minutes


IN_A_ROW = 3
UP = re.compile(r"(?:alloc|comp|idle|mix|plan|res)")  # states in which a node begins jobs, now or later


def this_node() -> str | None:
    """Slurm's name for the node of this job; None outside of a job."""
    return os.environ.get("SLURMD_NODENAME")


@contextlib.contextmanager
def blaming(workspace: Workspace, subject: str) -> Iterator[None]:
    """In the block, record an error against this node (`blame`), and raise it again."""
    try:
        yield
    except Exception as error:
        blame(workspace, subject, error)
        raise


def blame(workspace: Workspace, subject: str, error: Exception) -> None:
    """Record that a job failed on this Slurm node; if the node is now sick, exclude it from the user's
    waiting jobs.

    subject: the job's work: a pack, or the experiment that it evaluates.
    """
    failure = failure_of(error)
    if not (node := this_node()) or not failure["retry"]:
        return
    record = {key: failure[key] for key in ("kind", "text", "machine")}
    with contextlib.suppress(FedshiftError):  # a full disk must not end the other runs of the job
        write_json(workspace.nodes / node / f"{subject.replace('/', '_')}.json", record)
    if failure["machine"] and node in sick(workspace):
        _keep_away(workspace)


def acquit(workspace: Workspace) -> None:
    """Record that a run has finished on this node, so that earlier failures no longer count."""
    if (node := this_node()) and (folder := workspace.nodes / node).is_dir():
        with contextlib.suppress(FedshiftError):
            write_json(folder / "finished", {})


def sick(workspace: Workspace) -> dict[str, Failure]:
    """The nodes to which no job is sent -> the last failure there."""
    found = {}
    for folder in sorted(workspace.nodes.glob("*/")):
        with contextlib.suppress(FileNotFoundError):  # removed meanwhile
            finished = folder / "finished"
            since = finished.stat().st_mtime_ns if finished.exists() else 0
            dated = [(path.stat().st_mtime_ns, path) for path in folder.glob("*.json")]
            known = [(time, read_whole(path)) for time, path in sorted(dated) if time > since]
            failures = [failure for _, failure in known if failure and failure["machine"]]
            if len(failures) >= IN_A_ROW:
                found[folder.name] = failures[-1]
    return found


def excluded(workspace: Workspace, comment: str, partition: str | None) -> set[str]:
    """The nodes that a job must not go to; never all of a partition: then as few as possible.

    comment: Slurm's comment of the job, which ends with its pack, or with the experiment that it evaluates.
    """
    bad = {*sick(workspace)}
    failed = {
        path.parent.name for path in workspace.nodes.glob("*/*.json") if comment.endswith(f"_{path.stem}")
    }
    usable = _usable(partition)
    return next((nodes for nodes in (bad | failed, bad, failed) if nodes and usable - nodes), set())


def troubles(workspace: Workspace) -> list[tuple[str, str]]:
    """The problem of each sick node, and a fix."""
    if not (bad := sick(workspace)):
        return []
    usable = _usable(Cluster.read(workspace.root).slurm_partition)
    alone = bool(usable) and usable <= {*bad}
    then = "jobs are sent there all the same, as no other node is up" if alone else "no job is sent there"
    return [
        (
            f"node {node}: {IN_A_ROW} jobs or more in a row failed, the last by {failure['kind']}: "
            f"{failure['text'].partition(chr(10))[0]}; {then}",
            f"Once it is repaired: rm -r {(workspace.nodes / node).relative_to(workspace.root)}",
        )
        for node, failure in bad.items()
    ]


def _usable(partition: str | None) -> set[str]:
    """The nodes of partitions (None: of the default one) that are not down or drained."""
    return {node for _, node, state in _lines(partition, "-N", "-o", "%P|%N|%T") if UP.match(state)}


def _keep_away(workspace: Workspace) -> None:
    """Exclude bad nodes from the jobs of this project that wait in Slurm."""
    root = str(workspace.root.resolve())
    waiting = answer_of("squeue", "-h", "--me", "-t", "PENDING", "-o", "%i|%P|%x|%Z|%k") or ""
    for line in waiting.splitlines():
        job, partition, before, folder, comment = line.split("|", 4)
        if folder == root and (nodes := excluded(workspace, comment, partition)):
            every = ",".join(sorted({before, *nodes} - {""}))
            answer_of("scontrol", "update", f"JobId={job}", f"ExcNodeList={every}")


if __name__ == "__main__":  # COMMENT PARTITION, "" for the default one
    print(",".join(sorted(excluded(Workspace(Path()), sys.argv[1], sys.argv[2] or None))))
