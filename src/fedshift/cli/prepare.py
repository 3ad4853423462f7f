"""`fedshift prepare`: decode raw images once into a memory map."""

from pathlib import Path

import click

from fedshift.cli._options import complete, plan_option, registered, required, unchanged
from fedshift.common.errors import unknown
from fedshift.data.plots import plot_domains
from fedshift.data.prepare import load_index, map_pixels, prepare
from fedshift.planning import planfile
from fedshift.spec import closed
from fedshift.spec.settings import Prepare, Source
from fedshift.storage.workspace import Workspace


@click.command
@click.argument("name", metavar="DATASET[/RECIPE]", shell_complete=complete(registered("datasets")))
@plan_option
@click.option("--release", default="original", show_default=True)
@click.option("--px", default=32, show_default=True, help="Side of the squares, in pixels.")
@click.option("--jobs", type=click.IntRange(min=1), help="Number of processes.  [default: all cores]")
@click.pass_obj
def command(
    workspace: Workspace, name: str, plan: Path | None, release: str, px: int, jobs: int | None
) -> None:
    """Decode and resize every image of DATASET once, into data/prepared/DATASET. Also plots its domains side
    by side.

    DATASET/RECIPE names images of a plan by their folder; release and px are then the plan's.
    """
    if "/" in name:
        name, release, px = _planned(workspace, name, plan)
    folder = prepare(workspace, name, release, closed(Prepare, {"px": px}, "--px"), jobs)
    if not (picture := folder.with_suffix(".png")).exists():
        plot_domains(map_pixels(folder), load_index(folder), picture)
    click.echo(folder)


def _planned(workspace: Workspace, name: str, plan: Path | None) -> tuple[str, str, int]:
    """Data set, release and pixels of the plan's images of this name.

    Raises FedshiftError if the code has changed since it was planned.
    """
    path = required(plan, "the data set's name alone")
    known = {images.prepared.removeprefix("data/prepared/"): images for images in planfile.load(path).images}
    if name not in known:
        raise unknown(path, "prepared images", name, known)
    images = known[name]
    source = Source(dataset=images.dataset, release=images.release, prepare=Prepare(px=images.px))
    present = workspace.prepared(source.prepared_name)
    unchanged(images.prepared, workspace.root / images.prepared, present)
    return images.dataset, images.release, images.px
