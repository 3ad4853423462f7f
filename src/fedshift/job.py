"""What one job asks a cluster for, from the estimates of the runs that it trains. Standard library only: the Snakefile needs it."""

from __future__ import annotations

from collections.abc import Sequence

from fedshift.planfile import Run


def minutes(members: Sequence[Run], parallel: int, attempt: int = 1) -> int:
    """Twice the estimate of what is planned, more on each further attempt."""
    estimates = [run.minutes for run in members]
    together = min(parallel, len(members))
    return round(5 + 2 * attempt * max(max(estimates), sum(estimates) / together))


def mem_mb(members: Sequence[Run], parallel: int, attempt: int = 1) -> int:
    """The runs that train at once, the process that starts them, and the two of Snakemake that a Slurm job carries."""
    return 500 + attempt * min(parallel, len(members)) * max(run.mem_mb for run in members)


def adapting(runs: Sequence[Run], attempt: int = 1) -> int:
    """Minutes for adaptations, one after the other: a minute and ten rounds of its run for each; what was done before is kept."""
    return round(5 + attempt * sum(1 + 10 * run.minutes / max(run.rounds, 1) for run in runs))
