"""One run of a method, from the command line: progress while it trains, and what it came to."""

from __future__ import annotations

import logging
import sys
from typing import Any

import click
import numpy as np

from fedshift.api import Run
from fedshift.api import run as train
from fedshift.cli._options import parsed
from fedshift.experiments.declare import PROTOCOL
from fedshift.experiments.protocols import protocol
from fedshift.storage.workspace import Workspace
from fedshift.training.pack import interruptible

STOPPED = 130  # as a shell has it after Ctrl-C


def run(
    workspace: Workspace, method: str, data: str, asked: dict[str, Any], settings: tuple[str, ...],
    device: str, threads: int,
) -> None:  # fmt: skip
    """Train it, and say where it lies. After Ctrl-C it says how it goes on, and exits: with 143, as after
    SIGTERM, at the end of the round; with 130 after a second Ctrl-C, or while nothing trains.

    asked: target, seed, rounds and protocol, where the caller names them.
    """
    if not sys.stderr.isatty():  # a line a round in place of the bar
        logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    own = parsed(settings, "--set")
    stopped = "Stopped. What was reached is kept: the same command goes on from there."
    try:
        with interruptible(lambda text: click.echo(text, err=True)):
            trained = train(
                method, data, settings=own, root=workspace.root, device=device, threads=threads,
                say=click.echo, **asked,
            )  # fmt: skip
    except KeyboardInterrupt:
        click.echo(stopped, err=True)
        sys.exit(STOPPED)
    except SystemExit:
        click.echo(stopped, err=True)
        raise
    click.echo("\n".join(lines(workspace, trained, asked.get("protocol", PROTOCOL))))


def lines(workspace: Workspace, run: Run, protocol_name: str) -> list[str]:
    """What a finished run came to, in the round that its protocol reports; where it lies; how to see it."""
    select, summary = protocol(workspace, protocol_name).select, run.summary
    held_out = f", held out {summary['target']}" if summary["target"] else ""
    words = [f"{name} {value:.1f}" for name, value in run.accuracy(select).items()]
    end = f"round {run.round(select)} of {summary['rounds']} ({select})"
    losses = run.metrics.query("metric == 'loss'")
    diverged = losses.loc[~np.isfinite(losses["value"]), "round"]
    warning = [
        f"warning: the loss is not finite from round {diverged.min()} on. "
        "Lower local.lr, or set local.clip: docs/one-run.md, What goes wrong."
    ]
    rounds = f" --select {select}"
    return [
        f"{summary['method']} on {summary['dataset']}{held_out}, seed {summary['seed']}: "
        f"{', '.join(words)} % in {end}, {summary['costs']['seconds']:.0f} s",
        f"run:  {run.path}",
        f"see:  fedshift evaluate {run.digest} confusion{rounds}",
        f"      python -c 'import fedshift; print(fedshift.load_run(\"{run.digest}\").metrics)'",
        *(warning if len(diverged) else []),
    ]
