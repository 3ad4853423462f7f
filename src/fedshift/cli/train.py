"""`fedshift train`: train one method on one data set, in this process."""

import logging
import sys
from typing import Any

import click

from fedshift.cli._options import complete, device_option, experiments, parsed, registered, threads_option
from fedshift.common.errors import FedshiftError
from fedshift.common.registry import get, names
from fedshift.storage.workspace import Workspace

STOPPED = 130  # as a shell reports Ctrl-C


def _domains(context: click.Context, parameter: click.Parameter, begun: str) -> list[str]:
    """The domains of the data set in `--data`."""
    dataset = str(context.params.get("data") or "").partition(":")[0]
    known: tuple[str, ...] = get("datasets", dataset).domains if dataset in names("datasets") else ()
    return [name for name in known if name.startswith(begun)]


@click.command(
    epilog="Example: fedshift train fedavg --data digits --target ink --rounds 3 --set local.lr=0.1"
)
@click.argument("method", metavar="METHOD", shell_complete=complete(registered("methods")))
@click.option(
    "--data",
    required=True,
    metavar="DATASET[:RELEASE]",
    shell_complete=complete(registered("datasets")),
    help="Data set: digits, vlcs:domainbed, folder:PATH.",
)
@click.option("--target", metavar="DOMAIN", shell_complete=_domains, help="Held-out domain.  [default: none]")
@click.option("--seed", type=click.IntRange(min=0), help="Random seed.  [default: 0]")
@click.option("--rounds", type=click.IntRange(min=0), help="Communication rounds.  [default: the protocol's]")
@click.option("--protocol", metavar="NAME", help="A file below reference/protocols.  [default: unified]")
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="Any setting of a run, by its dotted key (method.params.mu=0.1): docs/settings.md.",
)
@device_option
@threads_option
@click.pass_obj
def command(
    workspace: Workspace, /, method: str, data: str, settings: tuple[str, ...], device: str, threads: int,
    **options: Any,
) -> None:  # fmt: skip
    """Train METHOD once, on one data set. Images are fetched if possible, decoded and partitioned first.

    Ctrl-C stops at the end of the round; the same command resumes. The run has the same id and folder as in
    an experiment with these settings.
    """
    import numpy as np

    from fedshift.api import run as train
    from fedshift.experiments.declare import PROTOCOL
    from fedshift.experiments.protocols import protocol
    from fedshift.training.pack import interruptible

    if method not in names("methods") and method in experiments(workspace):
        what, cure = f"'{method}' is an experiment, not a method", f"To run it: fedshift run {method}"
        raise FedshiftError("fedshift train", what, cure)
    asked = {key: value for key, value in options.items() if value is not None}
    if not sys.stderr.isatty():  # a line per round instead of the bar
        logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    own = parsed(settings, "--set")
    stopped = "Stopped. The finished rounds are saved: the same command resumes from there."
    try:
        with interruptible(lambda text: click.echo(text, err=True)):
            run = train(
                method, data, settings=own, root=workspace.root, device=device, threads=threads,
                say=click.echo, **asked,
            )  # fmt: skip
    except KeyboardInterrupt:
        click.echo(stopped, err=True)
        sys.exit(STOPPED)
    except SystemExit:
        click.echo(stopped, err=True)
        raise
    select, summary = protocol(workspace, asked.get("protocol", PROTOCOL)).select, run.summary
    held_out = f", held out {summary['target']}" if summary["target"] else ""
    words = ", ".join(f"{name} {value:.1f}" for name, value in run.accuracy(select).items())
    click.echo(
        f"{summary['method']} on {summary['dataset']}{held_out}, seed {summary['seed']}: {words} % in "
        f"round {run.round(select)} of {summary['rounds']} ({select}), {summary['costs']['seconds']:.0f} s\n"
        f"run:  {run.path}\n"
        f"see:  fedshift evaluate {run.digest} confusion --select {select}\n"
        f"      python -c 'import fedshift; print(fedshift.load_run(\"{run.digest}\").metrics)'"
    )
    losses = run.metrics.query("metric == 'loss'")
    diverged = losses.loc[~np.isfinite(losses["value"]), "round"]
    if len(diverged):
        click.echo(
            f"warning: the loss is not finite from round {diverged.min()} on. "
            "Lower local.lr, or set local.clip: docs/debug-a-run.md."
        )
