"""`fedshift gc`: find, and optionally delete, results that nothing needs."""

from collections import defaultdict
from collections.abc import Iterator

import click

from fedshift.cli.plan import read_request
from fedshift.experiments.load import available, load
from fedshift.planning import planfile
from fedshift.planning.plan import plan
from fedshift.storage.workspace import TUNING, Workspace
from fedshift.training.gc import UNUSED, delete, garbage


@click.command(epilog="Example: fedshift gc --delete")
@click.option("--delete", "deleting", is_flag=True, help="Delete them. Without it they are only listed.")
@click.option(
    "--unused",
    is_flag=True,
    help="Also runs of no experiment: those of `fedshift train` and Python, and of experiments that changed.",
)
@click.pass_obj
def command(workspace: Workspace, deleting: bool, unused: bool) -> None:
    """List runs below results/ that nothing needs.

    These are runs that were trained again (plan --retrain-changed), and runs on your own images that have
    changed since. Runs of no experiment are only counted, unless --unused is given. Running jobs, tables,
    figures and collected metrics stay.
    """
    if not workspace.has_runs():
        click.echo("Nothing is left over: there is no run below results/.")
        return
    path = plan(workspace, read_request(workspace, tuple(_wanted(workspace))))
    found = list(garbage(workspace, planfile.runs(path)))
    leftovers = [directory for directory in found if unused or directory.why != UNUSED]
    sums: dict[str, list[int]] = defaultdict(list)
    for directory in leftovers:
        sums[directory.why].append(directory.size)
        where = directory.path.relative_to(workspace.root)
        click.echo(f"{directory.size / 1e6:9.1f} MB  {directory.why:16}  {where}")
    for why, sizes in sums.items():
        click.echo(f"{len(sizes)} {why}: {sum(sizes) / 1e9:.2f} GB")
    if len(leftovers) < len(found):
        size = sum(directory.size for directory in found if directory.why == UNUSED) / 1e9
        click.echo(
            f"{len(found) - len(leftovers)} of no experiment (see --unused) stay, such as runs of "
            f"`fedshift train`: {size:.2f} GB"
        )
    if not leftovers:
        click.echo("Nothing is left over.")
    elif not deleting:
        click.echo("Nothing is deleted. To delete them: the same command with --delete.")
    else:
        with click.progressbar(
            delete(workspace, leftovers), label="Deleting", length=len(leftovers)
        ) as deletions:
            for _ in deletions:
                pass


def _wanted(workspace: Workspace) -> Iterator[str]:
    """All experiments and the searches of tuned ones; tuned ones only if their settings are chosen."""
    for name in available(workspace):
        tuned = load(workspace, name).tune is not None
        if tuned:
            yield name + TUNING
        if not tuned or workspace.tuned(name).is_file():
            yield name
