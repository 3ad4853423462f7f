"""`fedshift archive`: store measurements of finished runs in git; list, check and compare archived runs.

`fedshift reproduce` trains an archived run again and compares it with the archive.
"""

import logging
import sys
from collections import Counter
from pathlib import Path

import click

from fedshift.analysis.collect import planned
from fedshift.archive import store
from fedshift.archive.compare import compare
from fedshift.archive.file import Archived, check, read
from fedshift.cli._options import complete, device_option, experiments
from fedshift.common.errors import FedshiftError
from fedshift.experiments.load import load
from fedshift.spec import parse
from fedshift.storage.rundir import RunDirectory, State, trained
from fedshift.storage.workspace import Workspace


@click.command(
    epilog="Examples: fedshift archive hfedf/table2; fedshift archive --check; "
    "fedshift archive hfedf/table2 --compare"
)
@click.argument("experiment", required=False, shell_complete=complete(experiments))
@click.option(
    "--check",
    "checking",
    is_flag=True,
    help="Write nothing; hold the files of EXPERIMENT, or all, against hashes, schema and declared versions.",
)
@click.option(
    "--compare", "comparing", is_flag=True, help="Write nothing; compare own runs with archived ones."
)
@click.option(
    "--list",
    "listed",
    is_flag=True,
    help="Write nothing; list the runs of EXPERIMENT, or all, with machine, hours and size.",
)
@click.pass_obj
def command(
    workspace: Workspace, experiment: str | None, checking: bool, comparing: bool, listed: bool
) -> None:
    """Store what the finished runs of EXPERIMENT measured, without weights, below results-archive/: one small
    file per run, to be committed.

    A clone then has tables without training (docs/share-results.md). --check exits with 2 if a file is
    invalid. With --compare, the exit status is 1 if a run differs from the archive. On the same class of
    machine every bit counts, on others differences above the noise between machines.
    """
    if checking + comparing + listed > 1:
        raise FedshiftError("fedshift archive", "--check, --compare and --list are three things", "Name one.")
    if experiment is None and not (checking or listed):
        raise FedshiftError("fedshift archive", "no experiment is named", "See: fedshift list experiments.")
    runs = _runs(workspace, experiment) if experiment else []
    if checking or listed:
        named, files = {run.digest for run in runs}, sorted(workspace.archive.rglob("*.zip"))
        if experiment:
            files = [path for path in files if path.name.partition("-")[0] in named]
        (_check if checking else _list)(workspace, files)
        return
    finished = [run for run in runs if run.outcome() is State.FINISHED]
    if comparing:
        _compare(workspace, finished)
    else:
        _write(workspace, finished, len(runs))


def _runs(workspace: Workspace, experiment: str) -> list[RunDirectory]:
    """The runs of an experiment without repetition, finished or not."""
    uses = planned(workspace, load(workspace, experiment), None)
    return [workspace.run_at(directory) for directory in dict.fromkeys(use.directory for use in uses)]


def _write(workspace: Workspace, finished: list[RunDirectory], total: int) -> None:
    """Archive the finished runs; print which files are new, replaced and incomplete."""
    written = size = 0
    for run in finished:
        new, replaced = store.add(workspace, run)
        for old in replaced:
            click.echo(f"removed   {old.path}")
        if new:
            click.echo(f"archived  {new.path}  {len(new.data) / 1e3:.0f} kB")
            for name, why in new.index.left_out.items():
                click.echo(f"          left out: {name} ({why})")
            written, size = written + 1, size + len(new.data)
    click.echo(
        f"{written} archived ({size / 1e6:.2f} MB), {len(finished) - written} were there, "
        f"{total - len(finished)} of {total} runs are not finished. Commit {workspace.archive}."
    )


def _check(workspace: Workspace, files: list[Path]) -> None:
    """Check archived files; print how many are complete, outdated and rejected, and the machines."""
    whole, refused = [], 0
    for path in files:
        try:
            archived = read(path)
            check(workspace, archived)
            whole.append(archived)
        except FedshiftError as error:
            click.echo(f"rejected: {error}", err=True)
            refused += 1
    old = store.superseded(whole)
    for run in old:
        click.echo(f"not the newest of its run: {run.path}")
    size = sum(len(run.data) for run in whole)
    click.echo(f"{len(whole)} archived runs are whole ({size / 1e6:.2f} MB), {len(old)} not the newest.")
    for machine, count in Counter(run.machine for run in whole).items():
        click.echo(f"{count:6}  {machine}")
    if refused:
        raise FedshiftError(workspace.archive, f"{refused} files are rejected: see above")


def _list(workspace: Workspace, files: list[Path]) -> None:
    """Print a line for each archived run, and their sum."""
    lines = [store.COLUMNS, *store.listed(map(read, files))]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = [f"{cell:>{width}}" for cell, width in zip(line[1:], widths[1:], strict=True)]
        click.echo("  ".join([f"{line[0]:{widths[0]}}", *cells]))


def _compare(workspace: Workspace, finished: list[RunDirectory]) -> None:
    """Compare finished runs with archived ones of the same id; exit with 1 if one differs too much."""
    compared = failed = 0
    for run in finished:
        name = workspace.name_of(run)
        for archived in store.of_run(workspace, name):
            result = compare(run, archived)
            compared, failed = compared + 1, failed + (not result.passed)
            word = "ok  " if result.passed else "FAIL"
            click.echo(f"{word}  {name}: {result}; archived by {archived.machine}")
    click.echo(f"{compared - failed} of {compared} archived runs are what was trained here, too.")
    if failed:
        raise click.exceptions.Exit(1)


@click.command("reproduce", epilog="Example: fedshift reproduce a9a525dc")
@click.argument("run", metavar="RUN")
@device_option
@click.option(
    "--threads", type=click.IntRange(min=1), help="CPU threads.  [default: as many as the archived run's]"
)
@click.pass_obj
def reproduce(workspace: Workspace, run: str, device: str, threads: int | None) -> None:
    """Train an archived run again and compare it with the archive: equal bit for bit, within the noise
    between machines, or different.

    RUN is a run id or the beginning of one (`fedshift archive --list`). Images and partition are prepared
    first. An interrupted run resumes; a finished one is only compared. Exits with 1 if the run is different.
    """
    from fedshift.training.device import device as device_of
    from fedshift.training.provide import provide
    from fedshift.training.run import Machine, train

    archived = found(workspace, run)
    summary = archived.summary
    spec = parse(summary["spec"], str(archived.path))
    directory = workspace.run(spec.run_name)
    click.echo(f"{summary['digest']}: {trained(summary)}")
    click.echo(f"archived by {archived.machine}: {summary['costs']['seconds'] / 60:.0f} min")
    if directory.outcome() is not State.FINISHED:
        provide(workspace, spec, say=click.echo)
        machine = Machine(device_of(device), threads or int(summary["environment"]["threads"]))
        if not sys.stderr.isatty():  # a line per round instead of the bar
            logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
        train(workspace, spec, machine, show=True)
    result = compare(directory, archived)
    click.echo(f"{directory.path}\n{result}")
    if not result.passed:
        raise click.exceptions.Exit(1)


def found(workspace: Workspace, run: str) -> Archived:
    """The newest archived run whose id begins with `run`.

    Raises FedshiftError if there is none, or if there are several.
    """
    named = [path for path in sorted(workspace.archive.rglob("*.zip")) if path.name.startswith(run)]
    if len({path.name.partition("-")[0] for path in named}) > 1:
        what = f"'{run}' begins the ids of {len(named)} archived runs"
        raise FedshiftError(workspace.archive, what, "Give more of it: fedshift archive --list.")
    if not named:
        raise FedshiftError(
            workspace.archive, f"no archived run is called '{run}'", "See: fedshift archive --list."
        )
    return max(map(read, named), key=lambda one: one.index.finished)
