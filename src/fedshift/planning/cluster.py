"""What a cluster calls things: the keys of slurm/cluster.yaml. No heavy imports: the Snakefile needs it."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass
from pathlib import Path

from fedshift.common.errors import FedshiftError
from fedshift.common.processes import answer_of
from fedshift.common.yaml_file import read
from fedshift.planning.request import check, key

PATH = Path("slurm", "cluster.yaml")
OF_GPUS = ("gres", "gpu_model")


@dataclass(frozen=True)
class Cluster:
    """What this cluster calls things; each key is a resource of Snakemake's Slurm plugin. fedshift itself
    adds GPU, memory, minutes and the warning before the time limit.
    """

    slurm_partition: str | None = key(
        "Partition that jobs go to; without it the cluster's default one.", None
    )
    slurm_account: str | None = key("Account that pays for them.", None)
    qos: str | None = key("Quality of service of jobs.", None)
    constraint: str | None = key("Features that a node must have: `a100`.", None)
    gpu_model: str | None = key("Model of the GPU that a job gets: `a100`.", None)
    gres: str | None = key(
        "Part of a GPU that a job gets, where the cluster shares GPUs: `shard:1`, `mps:25`.", None
    )
    clusters: str | None = key(
        "Names of the clusters that may take a job, where several share one Slurm.", None
    )

    slurm_extra: str | None = key(
        "Further options of sbatch, instead of the profile's `--signal=TERM@120`: keep that among them.", None
    )

    @classmethod
    def read(cls, root: Path) -> Cluster:
        """The file of the project at `root`, empty where there is none. Raises FedshiftError for what it may
        not hold.
        """
        path = root / PATH
        config = read(path) if path.is_file() else {}
        check(cls, config, PATH.as_posix())
        if config.get("gres") and config.get("gpu_model"):
            cure = "Leave one of them out; a model's part is written `shard:a100:1`."
            raise FedshiftError(PATH, "'gres' is part of a GPU, 'gpu_model' a whole one", cure)
        return cls(**config)

    @property
    def resources(self) -> dict[str, str]:
        """What every job asks for: the keys that are set, but those of GPUs."""
        known = dataclasses.asdict(self)
        return {name: value for name, value in known.items() if value is not None and name not in OF_GPUS}

    def of_gpus(self, device: str) -> dict[str, str]:
        """What a job that computes on `device` asks for besides: the model of its GPU, or a part of one."""
        known = {name: getattr(self, name) for name in OF_GPUS} if device == "cuda" else {}
        return {name: value for name, value in known.items() if value is not None}


def limits(partition: str | None) -> tuple[int | None, int | None]:
    """How many minutes a job of a partition (None: the default one) may take, and the memory (MB) of its
    largest node; None where nothing limits it, or nobody answers.
    """
    minutes, memory = None, []
    for line in (answer_of("sinfo", "-h", "-o", "%P|%l|%m") or "").splitlines():
        name, limit, mb = line.split("|")
        if name.rstrip("*") == partition or (partition is None and name.endswith("*")):
            minutes = parsed_minutes(limit)
            memory.append(int(mb.rstrip("+")))
    return minutes, max(memory, default=None)


def parsed_minutes(limit: str) -> int | None:
    """Slurm's [days-]hours:minutes:seconds or minutes:seconds in minutes; None for any other word
    (infinite).
    """
    if not (parts := re.fullmatch(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)", limit)):
        return None
    days, hours, minutes, _ = (int(part or 0) for part in parts.groups())
    return (days * 24 + hours) * 60 + minutes
