"""`fedshift prepare`: decode raw images once into a memory map.

`fedshift partition`: assign every image to a client, and to training, validation or test.
"""

import json
import sys
from pathlib import Path

import click

from fedshift.cli._options import complete, plan_option, registered, required, unchanged
from fedshift.common.errors import FedshiftError, check_known
from fedshift.common.parquet import read_columns
from fedshift.common.yaml_file import read
from fedshift.data.groups import hashed
from fedshift.data.partition import CURE
from fedshift.data.plots import plot_domains
from fedshift.data.prepare import load_prepared, prepare
from fedshift.planning import planfile
from fedshift.spec import Division, RunSpec, closed, parse
from fedshift.spec.resolve import resolve_division
from fedshift.spec.settings import Prepare, Source
from fedshift.storage.rundir import failure_of
from fedshift.storage.workspace import Workspace
from fedshift.training.provide import divide

TOGETHER = "partition.groups: together"


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
        name, release, px = _images(workspace, name, plan)
    folder = prepare(workspace, name, release, closed(Prepare, {"px": px}, "--px"), jobs)
    if not (picture := folder.with_suffix(".png")).exists():
        images = load_prepared(folder)
        plot_domains(images.pixels, images.index, picture)
    click.echo(folder)


def _images(workspace: Workspace, name: str, plan: Path | None) -> tuple[str, str, int]:
    """Data set, release and pixels of the plan's images of this name."""
    path = required(plan, "the data set's name alone")
    known = {images.prepared.removeprefix("data/prepared/"): images for images in planfile.load(path).images}
    check_known(path, "prepared images", name, known)
    images = known[name]
    source = Source(dataset=images.dataset, release=images.release, prepare=Prepare(px=images.px))
    present = workspace.prepared(source.prepared_name)
    unchanged(images.prepared, workspace.root / images.prepared, present)
    return images.dataset, images.release, images.px


@click.command("partition")
@click.argument("names", metavar="[DATASET/RECIPE]...", nargs=-1)
@plan_option
@click.option(
    "--spec",
    "file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="By hand: a YAML file with data, partition and seed as in an experiment, or a run's spec.json.",
)
@click.pass_obj
def partition(workspace: Workspace, names: tuple[str, ...], plan: Path | None, file: Path | None) -> None:
    """Assign every image to a client, and to training, validation or test. Also plots who holds what.

    Makes planned partitions (default: all of the plan), or the one of --spec. A planned partition is named by
    its file: pacs/3f0c5a91b7de for data/partitions/pacs/3f0c5a91b7de.parquet.
    """
    if file is not None and names:
        raise FedshiftError("fedshift partition", "--spec names one partition", "Leave out DATASET/RECIPE.")
    failed = False
    for spec in [_by_hand(file, workspace.root)] if file is not None else _divisions(workspace, names, plan):
        data = spec.data
        if not (folder := workspace.prepared(data.prepared_name)).exists():
            cure = f"Run: fedshift prepare {data.dataset} --release {data.release} --px {data.prepare.px}"
            raise FedshiftError(folder, "no such folder", cure)
        try:
            path = divide(workspace, spec)
        except FedshiftError as error:  # of one partition, which must not stop the others
            click.echo(f"error: {error}", err=True)
            for run in planfile.runs(plan) if plan else ():
                if workspace.root / run.partition == workspace.partition(spec.partition_name):
                    workspace.run_at(run.directory).fail(failure_of(error))
            failed = True
            continue
        table, facts = read_columns(path, CURE)
        if count := facts["twins"]:
            together = spec.partition.groups != "apart"
            fate = f"left out ({TOGETHER})" if together else f"kept; {TOGETHER} leaves them out"
            click.echo(
                f"byte-identical to tested images of the held-out domain: {count} images, {fate}", err=True
            )
        images = table.loc[table["split"] == "train", "client"].value_counts()
        spread = f"{images.min():,} to {images.max():,} training images, {images.median():,.0f} the median"
        click.echo(f"{len(images):,} clients of {spread}", err=True)
        click.echo(path)
    if failed:
        sys.exit(2)


def named(run: planfile.Run) -> str:
    """The name of a planned run's partition, as an argument of this command."""
    return run.partition.removeprefix("data/partitions/").removesuffix(".parquet")


def _by_hand(file: Path, root: Path) -> Division:
    """The partition declared by a file, alone or as part of a whole run."""
    value = read(file)
    declared = closed(RunSpec if "method" in value else Division, value, str(file))
    if not isinstance(groups := declared.partition.groups, str):
        parts = declared.partition.model_copy(update={"groups": hashed(groups, root)})
        declared = declared.model_copy(update={"partition": parts})
    return resolve_division(declared, str(file))


def _divisions(workspace: Workspace, names: tuple[str, ...], plan: Path | None) -> list[Division]:
    """A run for each of the plan's partitions, or of those in `names`."""
    path = required(plan, "--spec")
    runs = {named(run): run for run in planfile.runs(path)}
    specs: list[Division] = []
    for name in names or runs:
        check_known(path, "partition", name, runs)
        specs.append(parse(json.loads(runs[name].spec), name))
        planned = runs[name].partition
        unchanged(planned, workspace.root / planned, workspace.partition(specs[-1].partition_name))
    return specs
