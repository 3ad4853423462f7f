"""What one job asks a cluster for, from the estimates of the runs that it trains, and what it is told. Standard library only:
the Snakefile needs it."""

from __future__ import annotations

import json
from collections.abc import Sequence

from fedshift.planning.planfile import Run


def minutes(members: Sequence[Run], parallel: int, attempt: int = 1) -> int:
    """Twice the estimate of what is planned, more on each further attempt."""
    estimates = [run.minutes for run in members]
    together = min(parallel, len(members))
    return round(5 + 2 * attempt * max(max(estimates), sum(estimates) / together))


def mem_mb(members: Sequence[Run], parallel: int, attempt: int = 1) -> int:
    """The runs that train at once, the process that starts them, and the two of Snakemake that a Slurm job carries."""
    return 500 + attempt * min(parallel, len(members)) * max(run.mem_mb for run in members)


def disk_mb(members: Sequence[Run], parallel: int) -> int:
    """What runs leave on the disk, and the checkpoints of the largest that train at once."""
    passing = sorted((run.disk_mb - run.kept_mb for run in members), reverse=True)
    return sum(run.kept_mb for run in members) + sum(passing[:parallel])


def adapting(runs: Sequence[Run], attempt: int = 1) -> int:
    """Minutes for adaptations, one after the other: a minute and ten rounds of its run for each; what was done before is kept."""
    return round(5 + attempt * sum(1 + 10 * run.minutes / max(run.rounds, 1) for run in runs))


def partition(run: str) -> list[str]:
    """The words after `fedshift partition` that make the partition of a run, given as its resolved spec in JSON."""
    spec = json.loads(run)
    data, split = spec["data"], spec["partition"]
    targets = [data["target"]] if isinstance(data["target"], str) else data["target"] or []
    options = [
        ("--release", data["release"]),
        ("--px", data["prepare"]["px"]),
        ("--seed", spec["seed"]),
        ("--scheme", split["scheme"]),
        ("--fractions", ",".join(map(str, split["fractions"]))),
        *(("--param", f"{key}={value}") for key, value in split["params"].items()),
        *(("--target", domain) for domain in targets),
        ("--split", split["split"]),
        ("--groups", split["groups"]),
        ("--target-split", split["target_split"]),
        *(("--modify", f"{name}={json.dumps(given)}") for name, given in split["modify"].items()),
    ]
    return [data["dataset"], *(str(word) for option in options for word in option)]
