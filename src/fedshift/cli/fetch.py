"""`fedshift fetch`: get raw images or pretrained weights, or show where to get them."""

from pathlib import Path

import click

from fedshift.cli._options import complete, registered
from fedshift.common.errors import FedshiftError
from fedshift.storage.workspace import Workspace


@click.command(
    "fetch",
    epilog="Examples: fedshift fetch pacs; fedshift fetch folder --from TREE --release mine; "
    "fedshift fetch weights resnet18",
)
@click.argument("name", metavar="NAME|weights", shell_complete=complete(registered("datasets")))
@click.argument("models", metavar="[MODEL]...", nargs=-1)
@click.option("--release", help="Release; for `folder`, your name for the tree.  [default: original]")
@click.option(
    "--from",
    "sources",
    type=click.Path(exists=True, path_type=Path),
    multiple=True,
    metavar="PATH",
    help="A tree domain/class/image on this machine (copied, and never changed), or an archive; several "
    "archives: once for each. "
    "With `weights`: a file of weights, or a folder of such (copied).",
)
@click.option(
    "--lists",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="Official lists <domain>_train.txt, <domain>_test.txt, where the project has none.",
)
@click.option(
    "--ignore",
    multiple=True,
    metavar="GLOB",
    help="Files that do not belong to the tree, by path in it or by name: '*.txt'; several: once for each.",
)
@click.option(
    "--skip-broken", is_flag=True, help="Read every image now; leave out those that cannot be, and name them."
)
@click.option(
    "--link",
    is_flag=True,
    help="Use the tree of --from where it is: link it, copy nothing, and leave it out of DVC.",
)
@click.pass_obj
def command(
    workspace: Workspace,
    name: str,
    models: tuple[str, ...],
    release: str | None,
    sources: tuple[Path, ...],
    lists: Path | None,
    ignore: tuple[str, ...],
    skip_broken: bool,
    link: bool,
) -> None:
    """Get the raw images of data set NAME into data/raw/NAME/RELEASE and put them under DVC. Commit the small
    file data/raw/NAME/RELEASE.dvc: it identifies this version of the images.

    `fetch weights [MODEL]...` gets pretrained weights instead; without MODEL those of the experiments in
    params.yaml. Files go to the folder FEDSHIFT_WEIGHTS, or to torch's cache. Each is checked by its SHA-256.
    """
    if name == "weights":
        if ignore or skip_broken or link:
            raise click.UsageError("--ignore, --skip-broken and --link are for data sets.")
        if release or lists:
            raise click.UsageError("--release and --lists are for data sets.")
        from fedshift.storage.weights import fetch_weights

        fetch_weights(models if models or sources else _needed_models(workspace), sources, say=click.echo)
        return
    if models:
        raise click.UsageError(f"One data set at a time: {name}, then {', '.join(models)}.")
    from fedshift.data import versions
    from fedshift.data.fetch import fetch

    release = release or "original"
    raw = workspace.raw(name, release)
    if link and (file := versions.pointer(raw)).exists():
        what = "names a version of this tree, and DVC would write through a link into your folder"
        raise FedshiftError(file, what, "Leave out --link: the tree is copied, your folder is not changed.")
    obstacle = versions.obstacle(workspace.root)
    there = raw.exists() and not raw.is_symlink()
    fetch(workspace, name, release, sources, lists, ignore, skip_broken, click.echo, not (link or obstacle))
    click.echo(raw)
    if not raw.exists():  # comes with its library
        return
    if obstacle:
        click.echo(f"not under DVC: {obstacle[0]} ({obstacle[1]})")
    elif raw.is_symlink():
        click.echo("not under DVC: linked. The same command without --link copies and versions it.")
    else:
        click.echo(versions.add(workspace.root, raw, made=not there))


def _needed_models(workspace: Workspace) -> list[str]:
    """The models whose weights the experiments of params.yaml need."""
    from fedshift.cli.plan import read_request
    from fedshift.planning.lacking import needed_weights
    from fedshift.planning.plan import specs

    files = (
        file
        for spec in specs(workspace, read_request(workspace, ()))
        for file in needed_weights(workspace, spec)
    )
    owners = [*dict.fromkeys(file.owner for file in files if file.address)]
    if not owners:
        click.echo("The experiments of params.yaml need no published weights.")
    return owners
