"""Resources of a job on a cluster, from the estimates of its runs. Standard library only: the Snakefile
needs it.
"""

from collections.abc import Sequence

from fedshift.planning.planfile import Run

SPARE_MINUTES, SPARE = 5, 2  # what a job requests on top of the estimate, and its factor


def minutes(
    members: Sequence[Run], parallel: int, hours: int, attempt: int = 1, most: int | None = None
) -> int:
    """Time limit of a job: twice the estimate, and as much again for each additional attempt.

    It is at most `hours`, and at most `most` minutes, the partition's limit.
    """
    wanted = round(SPARE_MINUTES + SPARE * attempt * _estimate(members, parallel))
    return min(60 * hours, wanted, most or wanted)


def longer(members: Sequence[Run], parallel: int, hours: int) -> bool:
    """Whether a job may reach its time limit before its runs are done; then the next one resumes."""
    return SPARE_MINUTES + SPARE * _estimate(members, parallel) > 60 * hours


def fitting(minutes: float, parallel: int, hours: int) -> int:
    """The number of runs of `minutes` each that a job of `hours` can train, at least 1."""
    one_after_another = int((60 * hours - SPARE_MINUTES) / (SPARE * minutes))
    return max(1, one_after_another * parallel)


def _estimate(members: Sequence[Run], parallel: int) -> float:
    estimates = [run.minutes for run in members]
    return max(max(estimates), sum(estimates) / min(parallel, len(members)))


def mem_mb(members: Sequence[Run], parallel: int, attempt: int = 1, most: int | None = None) -> int:
    """Memory (MB) of a job: the concurrent runs, the process that starts them, and Snakemake's two processes
    on Slurm.

    The runs' part is added again for each additional attempt, up to `most` MB, the memory of the partition's
    largest node.
    """
    first, wanted = (
        500 + times * min(parallel, len(members)) * max(run.mem_mb for run in members)
        for times in (1, attempt)
    )
    return max(first, min(wanted, most or wanted))


def disk_mb(members: Sequence[Run], parallel: int) -> int:
    """Disk space (MB) of finished runs, and of the largest checkpoints of concurrent runs."""
    passing = sorted((run.disk_mb - run.kept_mb for run in members), reverse=True)
    return sum(run.kept_mb for run in members) + sum(passing[:parallel])


def evaluating(runs: Sequence[Run], hours: int, attempt: int = 1, most: int | None = None) -> int:
    """Minutes for evaluations of these runs, one after the other.

    Each takes a minute and ten rounds of its run. The estimate is added again for each additional attempt;
    finished evaluations are saved.
    """
    estimate = sum(1 + 10 * run.minutes / max(run.rounds, 1) for run in runs)
    wanted = round(SPARE_MINUTES + attempt * estimate)
    return min(60 * hours, wanted, most or wanted)


def title(members: Sequence[Run]) -> str:
    """Description of a job's runs: "fdse on digits, held out: plain, seeds 0 1"."""
    one = members[0]
    held_out = dict.fromkeys(run.target for run in members)
    seeds = sorted({run.seed for run in members})
    return (
        f"{one.method} on {one.dataset}, held out: {' '.join(held_out)}, "
        f"seed{'s' if len(seeds) > 1 else ''} {' '.join(map(str, seeds))}"
    )
