"""`fedshift train-pack`: train planned runs, each once. Called by the workflow."""

import json
import logging
import subprocess
import sys
from pathlib import Path
from typing import Literal

import click

from fedshift.cli._options import device_option, threads_option, unchanged
from fedshift.common.errors import FedshiftError, unknown
from fedshift.planning import planfile
from fedshift.planning.cluster import acquit, blame, blaming
from fedshift.planning.planfile import Run
from fedshift.storage.rundir import State
from fedshift.storage.workspace import Workspace
from fedshift.training.pack import at_once, claim, in_turn, interruptible, whole

log = logging.getLogger("fedshift.train")
PROGRAM = [sys.executable, "-m", "fedshift", "--root"]


@click.command
@click.argument("digests", metavar="[RUN]...", nargs=-1)
@click.option(
    "--plan",
    "path",
    type=click.Path(path_type=Path, dir_okay=False),
    envvar="FEDSHIFT_PLAN",
    required=True,
    help="The plan file.",
)
@click.option("--pack", help="Train the runs of this pack and write its stamp.")
@click.option(
    "--parallel",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Number of runs trained at once.",
)
@threads_option
@device_option
@click.option(
    "--checkpoint-seconds",
    type=click.FloatRange(min=0),
    default=30.0,
    envvar="FEDSHIFT_CHECKPOINT_SECONDS",
    show_default=True,
    help="Minimum time between checkpoints.",
)
@click.pass_obj
@interruptible(log.warning)
def command(
    workspace: Workspace,
    digests: tuple[str, ...],
    path: Path,
    pack: str | None,
    parallel: int,
    threads: int,
    device: str,
    checkpoint_seconds: float,
) -> None:
    """Train planned runs: those of --pack, or the given run ids (prefixes are enough).

    Finished runs are skipped, interrupted ones resume from their checkpoint, and a failure does not stop the
    others. Missing partitions are made first. A pack skips runs that failed for good
    (fedshift plan --retry-failed). Ctrl-C and SIGTERM stop at the end of the round, a second one at once.
    Exits with 1 if a run failed and another try may help.
    """
    runs = _named(path, pack, digests)
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S", stream=sys.stdout
    )
    threads_a_run = max(1, threads // parallel)
    directories = {run: workspace.run_at(run.directory) for run in runs}
    todo = [run for run, directory in directories.items() if directory.outcome() is not State.FINISHED]
    if pack:
        todo = [run for run in todo if not directories[run].failed_for_good]

    def in_this_process(run: Run) -> None:
        graph = planfile.load(path).request.get("graph", "off")
        _train(workspace, run, threads_a_run, device, checkpoint_seconds, graph)

    def in_its_own_process(run: Run) -> list[str]:
        options = f"--threads {threads_a_run} --device {device} --checkpoint-seconds {checkpoint_seconds}"
        words = ["train-pack", run.digest, "--plan", str(path), *options.split()]
        return [*PROGRAM, str(workspace.root), *words]

    with blaming(workspace, runs[0].pack):
        ready = _divide(workspace, path, todo)
        if ready and device != "cpu":
            with whole():
                from fedshift.training.device import gpus  # torch: a pack of finished runs needs none

            claim(device, gpus())
        if parallel == 1 or len(ready) < 2:
            in_turn(workspace, ready, in_this_process)
        else:
            at_once(workspace, ready, parallel, in_its_own_process)
    failed = [run for run in todo if directories[run].outcome() is not State.FINISHED]
    stamped = pack is not None and workspace.pack(runs[0].stamp).write(directories.values())
    for run in failed:
        log.info("failed: %s (see %s there)", run.directory, directories[run].failure_file.name)
    if failed and not stamped:
        sys.exit(1)


def _divide(workspace: Workspace, path: Path, runs: list[Run]) -> list[Run]:
    """Make missing partitions, in a process whose memory does not count; return the runs that have one."""
    lacking = [run for run in runs if not (workspace.root / run.partition).is_file()]
    if lacking:
        from fedshift.cli.prepare import named

        names = dict.fromkeys(map(named, lacking))
        program = [*PROGRAM, str(workspace.root), "partition", *names, "--plan", str(path)]
        subprocess.run(program, check=False)
    return [run for run in runs if (workspace.root / run.partition).is_file()]


def _named(path: Path, pack: str | None, digests: tuple[str, ...]) -> list[Run]:
    """The runs of the plan selected by pack or by run ids."""
    every = planfile.runs(path, pack)
    if pack is not None and not every:
        raise unknown(path, "pack", pack, {run.pack for run in planfile.runs(path)})
    if not pack and not digests:
        cure = "Give --pack, or run ids (see: fedshift plan --print runs)."
        raise FedshiftError("fedshift train-pack", "no run is named", cure)
    for digest in digests:
        if not any(run.digest.startswith(digest) for run in every):
            raise unknown(path, "run", digest, [run.digest for run in every])
    return [run for run in every if not digests or run.digest.startswith(digests)]


def _train(
    workspace: Workspace,
    run: Run,
    threads: int,
    device: str,
    checkpoint_seconds: float,
    graph: Literal["auto", "off"],
) -> None:
    """Train one run of the plan, if the code has not changed since it was planned."""
    with whole():  # or the run would count as failed, for names that modules lack after Ctrl-C
        from fedshift.spec import parse
        from fedshift.training.device import device as device_of
        from fedshift.training.run import Machine, train

    spec = parse(json.loads(run.spec), run.directory)
    unchanged(run.directory, run.digest, spec.run_id)
    try:
        train(workspace, spec, Machine(device_of(device), threads, checkpoint_seconds, graph))
    except Exception as error:  # one run's failure, whatever it is, must not end its neighbours
        log.error("%s: %s", run.directory, error, exc_info=not isinstance(error, FedshiftError))
        blame(workspace, run.pack, error)
    else:
        acquit(workspace)
