"""`fedshift tune`: choose an experiment's settings from the finished runs of its search."""

import click

from fedshift.analysis import tuning
from fedshift.analysis.collect import collect
from fedshift.cli._options import experiment_argument
from fedshift.experiments.load import load
from fedshift.experiments.tuning import read_choice, tuned
from fedshift.storage.workspace import TUNING, Workspace


@click.command(epilog="Example: fedshift tune unified/tuned")
@experiment_argument
@click.pass_obj
def command(workspace: Workspace, experiment: str) -> None:
    """Choose the settings of EXPERIMENT by validation, from the finished runs of its search (`fedshift run
    EXPERIMENT.tuning`).

    Writes reference/presets/tuned/EXPERIMENT.yaml, which the final runs use: commit it (docs/tuning.md).
    """
    declared = load(workspace, experiment)
    tuned(declared)  # raises an error where it is not
    path = tuning.write(workspace, declared, collect(workspace, experiment + TUNING))
    click.echo(tuning.page(read_choice(workspace, experiment)))
    click.echo(path)
