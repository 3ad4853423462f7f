"""What one job asks a cluster for, from the estimates of its runs. Standard library only: the Snakefile needs
it.
"""

from collections.abc import Sequence

from fedshift.planning.planfile import Run

SPARE_MINUTES, SPARE = 5, 2  # what a job asks for beside and over the estimate


def minutes(
    members: Sequence[Run], parallel: int, hours: int, attempt: int = 1, most: int | None = None
) -> int:
    """Twice the estimate of what is planned, as much again for each further attempt; never more than `hours`,
    nor than `most` minutes, the partition's limit.
    """
    wanted = round(SPARE_MINUTES + SPARE * attempt * _estimate(members, parallel))
    return min(60 * hours, wanted, most or wanted)


def longer(members: Sequence[Run], parallel: int, hours: int) -> bool:
    """Whether a job may reach its time limit before its runs are done, so that the next one resumes."""
    return SPARE_MINUTES + SPARE * _estimate(members, parallel) > 60 * hours


def fitting(minutes: float, parallel: int, hours: int) -> int:
    """How many runs of this many minutes each a job of `hours` can train, at least 1."""
    one_after_another = int((60 * hours - SPARE_MINUTES) / (SPARE * minutes))
    return max(1, one_after_another * parallel)


def _estimate(members: Sequence[Run], parallel: int) -> float:
    estimates = [run.minutes for run in members]
    return max(max(estimates), sum(estimates) / min(parallel, len(members)))


def mem_mb(members: Sequence[Run], parallel: int, attempt: int = 1, most: int | None = None) -> int:
    """The runs that train at once, the process that starts them, and the two of Snakemake that a Slurm job
    carries; as much again for each further attempt, up to `most` MB, those of the partition's largest node.
    """
    first, wanted = (
        500 + times * min(parallel, len(members)) * max(run.mem_mb for run in members)
        for times in (1, attempt)
    )
    return max(first, min(wanted, most or wanted))


def disk_mb(members: Sequence[Run], parallel: int) -> int:
    """What runs leave on the disk, and the checkpoints of the largest that train at once."""
    passing = sorted((run.disk_mb - run.kept_mb for run in members), reverse=True)
    return sum(run.kept_mb for run in members) + sum(passing[:parallel])


def evaluating(runs: Sequence[Run], hours: int, attempt: int = 1, most: int | None = None) -> int:
    """Minutes for evaluations of these runs, one after the other: a minute and ten rounds of its run for
    each, as much again for each further attempt; what was done before is kept.
    """
    estimate = sum(1 + 10 * run.minutes / max(run.rounds, 1) for run in runs)
    wanted = round(SPARE_MINUTES + attempt * estimate)
    return min(60 * hours, wanted, most or wanted)


def title(members: Sequence[Run]) -> str:
    """What a job trains, for a reader: "fdse on digits, held out: plain, seeds 0 1"."""
    one = members[0]
    held_out = dict.fromkeys(run.target for run in members)
    seeds = sorted({run.seed for run in members})
    return (
        f"{one.method} on {one.dataset}, held out: {' '.join(held_out)}, "
        f"seed{'s' if len(seeds) > 1 else ''} {' '.join(map(str, seeds))}"
    )
