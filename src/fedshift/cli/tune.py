"""`fedshift tune`: choose an experiment's settings from the finished runs of its tuning."""

from __future__ import annotations

import click

from fedshift.analysis import tuning
from fedshift.analysis.collection.collected import read
from fedshift.cli._names import complete, experiments
from fedshift.experiments.choice import stage_of
from fedshift.experiments.load import load, trials
from fedshift.storage.workspace import Workspace


@click.command
@click.argument("experiment", shell_complete=complete(experiments))
@click.pass_obj
def command(workspace: Workspace, experiment: str) -> None:
    """Choose the settings of EXPERIMENT by validation, from what `fedshift collect EXPERIMENT.tuning` has
    gathered.

    Written below results/tuning/: the choice, from which the final runs are planned, and all points that were
    tried. Snakemake does this on its way; `fedshift plan EXPERIMENT` says how far it is (docs/tuning.md).
    """
    declared = load(workspace, experiment)
    trials(workspace, declared)  # tuned, or refused
    path = tuning.write(workspace, declared, read(workspace, stage_of(experiment)))
    click.echo(path.with_suffix(".md").read_text(encoding="utf-8"))
    click.echo(path)
