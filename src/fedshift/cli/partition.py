"""`fedshift partition`: assign every sample to a client, and to train, validation or test."""

import json
import sys
from pathlib import Path

import click

from fedshift.cli._options import plan_option, required, unchanged
from fedshift.common.errors import FedshiftError, unknown
from fedshift.common.parquet import read_columns
from fedshift.common.yaml_file import read
from fedshift.data.groups import hashed
from fedshift.data.partition import CURE
from fedshift.planning import planfile
from fedshift.spec import Division, RunSpec, closed, parse
from fedshift.spec.resolve import resolve_division
from fedshift.storage.rundir import failure_of
from fedshift.storage.workspace import Workspace
from fedshift.training.provide import divide

TOGETHER = "partition.groups: together"


@click.command
@click.argument("names", metavar="[DATASET/RECIPE]...", nargs=-1)
@plan_option
@click.option(
    "--spec",
    "file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="By hand: a YAML file with data, partition and seed as in an experiment, or a run's spec.json.",
)
@click.pass_obj
def command(workspace: Workspace, names: tuple[str, ...], plan: Path | None, file: Path | None) -> None:
    """Assign every image to a client, and to training, validation or test. Also plots who holds what.

    Makes planned partitions (default: all of the plan), or the one of --spec. A planned partition is named by
    its file: pacs/3f0c5a91b7de for data/partitions/pacs/3f0c5a91b7de.parquet.
    """
    if file is not None and names:
        raise FedshiftError("fedshift partition", "--spec names one partition", "Leave out DATASET/RECIPE.")
    failed = False
    for spec in [_by_hand(file, workspace.root)] if file is not None else _planned(workspace, names, plan):
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


def _planned(workspace: Workspace, names: tuple[str, ...], plan: Path | None) -> list[Division]:
    """A run for each of the plan's partitions, or of those in `names`.

    Raises FedshiftError if the code has changed since it was planned.
    """
    path = required(plan, "--spec")
    runs = {named(run): run for run in planfile.runs(path)}
    specs: list[Division] = []
    for name in names or runs:
        if name not in runs:
            raise unknown(path, "partition", name, runs)
        specs.append(parse(json.loads(runs[name].spec), name))
        planned = runs[name].partition
        unchanged(planned, workspace.root / planned, workspace.partition(specs[-1].partition_name))
    return specs
