"""`fedshift gc`: find, and delete where asked, results that nothing needs."""

from __future__ import annotations

from collections import defaultdict

import click

from fedshift.cli.plan import read_request
from fedshift.experiments.load import available
from fedshift.planning import planfile
from fedshift.planning.plan import plan
from fedshift.storage.workspace import Workspace
from fedshift.training.gc import delete, garbage


@click.command
@click.option("--delete", "deleting", is_flag=True, help="Delete them. Without it they are only named.")
@click.pass_obj
def command(workspace: Workspace, deleting: bool) -> None:
    """Name runs below results/ that no file below experiments/ needs.

    These are runs that were trained again (plan --retrain-changed), of what was taken out of all
    experiments, and of images of your own that have changed since. Going back to those would train them
    again. What is being trained stays, as do all tables, figures and collected metrics.
    """
    request = read_request(workspace, tuple(available(workspace)))
    path = plan(workspace, request)
    waiting = planfile.waiting(path)
    of_waiting = [run for runs in waiting.values() for run in runs]
    leftovers = list(garbage(workspace, planfile.runs(path), of_waiting))
    for name in waiting:
        click.echo(f"{name}: its tuning has not chosen yet; all runs that it may choose stay.")
    sums: dict[str, list[int]] = defaultdict(list)
    for directory in leftovers:
        sums[directory.why].append(directory.size)
        where = directory.path.relative_to(workspace.root)
        click.echo(f"{directory.size / 1e6:9.1f} MB  {directory.why:16}  {where}")
    for why, sizes in sums.items():
        click.echo(f"{len(sizes)} {why}: {sum(sizes) / 1e9:.2f} GB")
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
