# A line for finished runs, with the time left, while jobs train them here or on a cluster: `7 of 36 runs, fdse on rural, about 6 min left`.
# Snakemake itself knows only jobs, each of which may train many runs.
import logging
import threading
import time

from fedshift.planning.progress import Progress
from fedshift.storage.rundir import State
from snakemake.logging import logger
from snakemake.settings.enums import Quietness
from snakemake_interface_logger_plugins.common import LogEvent

ENDED, FOLLOWERS = threading.Event(), []


def show_progress():
    """Follow the planned runs in a thread, which ends with this process. Runs that this call does not train are left out."""
    if not workflow.is_main_process:
        return
    made = {str(path) for job in workflow.dag.needrun_jobs() for path in job.output}
    left_out = {
        run.digest
        for run in PLAN.runs
        if str(WORKSPACE.pack(run.stamp).path) not in made
        and WORKSPACE.run_at(run.directory).outcome() is not State.FINISHED
    }
    progress = Progress(
        WORKSPACE,
        [run for run in PLAN.runs if run.digest not in left_out],
        lambda line: print(line, file=sys.stderr, flush=True),
    )
    FOLLOWERS.append(threading.Thread(target=watch, args=[progress], daemon=True))
    FOLLOWERS[0].start()
    if {Quietness.RULES, Quietness.REASON} & {*(workflow.output_settings.quiet or ())}:
        logger.addFilter(is_news)


def watch(progress):
    pause = 2
    while not ENDED.wait(pause):
        begun = time.monotonic()
        progress.look()
        pause = max(2, 20 * (time.monotonic() - begun))  # thousands of runs on a shared file system
    progress.look(last=True)


def end_progress():
    """The last line, before what is printed at the end."""
    ENDED.set()
    for follower in FOLLOWERS:
        follower.join(timeout=60)


def is_news(record):
    """Not that Snakemake selects jobs and ends one: a job's own line names what it makes."""
    told = getattr(record, "event", None)
    return (
        told not in (LogEvent.JOB_STARTED, LogEvent.JOB_FINISHED)
        and record.msg != "Select jobs to execute..."
    )
