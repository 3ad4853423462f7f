"""`fedshift run`: one experiment from images to tables and figures, by Snakemake; or one run of a method."""

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import click
from click.core import ParameterSource

from fedshift.cli._options import complete, device_option, experiments, parsed, registered, threads_option
from fedshift.common.errors import FedshiftError
from fedshift.common.registry import get, names
from fedshift.storage.workspace import Workspace

STOPPED = 130  # as a shell has it after Ctrl-C

profile_option = click.option(
    "--profile",
    envvar="SNAKEMAKE_PROFILE",
    default="profiles/local",
    show_default=True,
    help="Snakemake's profile: profiles/local or slurm.",
)
snakemake_arguments = click.argument(
    "options", nargs=-1, type=click.UNPROCESSED, metavar="[-- SNAKEMAKE_OPTIONS]..."
)


def _domains(context: click.Context, parameter: click.Parameter, begun: str) -> list[str]:
    """The domains of the data set that `--data` names."""
    dataset = str(context.params.get("data") or "").partition(":")[0]
    known: tuple[str, ...] = get("datasets", dataset).domains if dataset in names("datasets") else ()
    return [name for name in known if name.startswith(begun)]


@click.command
@click.argument(
    "name", metavar="EXPERIMENT|METHOD", shell_complete=complete(experiments, registered("methods"))
)
@profile_option
@click.option(
    "--data",
    metavar="DATASET[:RELEASE]",
    shell_complete=complete(registered("datasets")),
    help="Train METHOD once, on this: digits, pacs:hfedf, folder:PATH.",
)
@click.option(
    "--target", metavar="DOMAIN", shell_complete=_domains, help="The held-out domain.  [default: none]"
)
@click.option("--seed", type=click.IntRange(min=0), help="Decides every draw.  [default: 0]")
@click.option("--rounds", type=click.IntRange(min=0), help="Rounds.  [default: the protocol's]")
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
@snakemake_arguments
@click.pass_obj
def command(
    workspace: Workspace,
    /,
    name: str,
    profile: str,
    data: str | None,
    settings: tuple[str, ...],
    device: str,
    threads: int,
    options: tuple[str, ...],
    **asked: Any,
) -> None:
    """Make all results of EXPERIMENT, whether or not params.yaml lists it; what is done is not done again.
    What follows `--` is for Snakemake: options (`fedshift run demo -- --dry-run`) and targets
    (`fedshift run demo -- results/tables/demo/table.csv`).

    With --data, train METHOD once, in this process: images are fetched where they may be, decoded and
    divided; Ctrl-C stops it, and the same command goes on. It is the run of the same name and folder that an
    experiment with these settings trains.

    \b
    fedshift run fedavg --data digits --target ink --rounds 3 --set local.lr=0.1
    """
    own = {key: value for key, value in asked.items() if value is not None}
    source = click.get_current_context().get_parameter_source
    typed = [key for key in ("profile", "device", "threads") if source(key) is ParameterSource.COMMANDLINE]
    if data is not None:
        if options or "profile" in typed:
            given = "What follows --" if options else "--profile"
            raise click.UsageError(f"{given} is for Snakemake, which trains experiments.")
        _train_once(workspace, name, data, own, settings, device, threads)
        return
    own_flags = [*own, *(["set"] if settings else []), *(key for key in typed if key != "profile")]
    if own_flags:
        flags = ", ".join(f"--{key}" for key in own_flags)
        raise click.UsageError(f"{flags}: of one run of a METHOD, which needs --data, too.")
    _known(workspace, name)
    os.chdir(workspace.root)
    words = snakemake(name, profile, options)
    os.execv(words[0], words)  # in its place: Ctrl-C and the exit status are Snakemake's own


def _known(workspace: Workspace, name: str) -> None:
    """Refuse what is no experiment, with the nearest name; of a method say what is lacking."""
    from fedshift.cli.plan import read_request

    try:
        read_request(workspace, (name,))
    except FedshiftError as error:
        if name in names("methods"):
            cure = f"Say on which data: fedshift run {name} --data digits"
            raise FedshiftError(error.where, f"'{name}' is a method, and no experiment", cure) from None
        raise


def _train_once(
    workspace: Workspace, method: str, data: str, asked: dict[str, Any], settings: tuple[str, ...],
    device: str, threads: int,
) -> None:  # fmt: skip
    """Train one run; print what it came to, in the round that its protocol reports, where it lies, and how to
    see it. After Ctrl-C print how it goes on, and exit: with 143, as after SIGTERM, at the end of the round;
    with 130 after a second Ctrl-C, or while nothing trains.

    asked: target, seed, rounds and protocol, where the caller names them.
    """
    import numpy as np

    from fedshift.api import run as train
    from fedshift.experiments.declare import PROTOCOL
    from fedshift.experiments.protocols import protocol
    from fedshift.training.pack import interruptible

    if not sys.stderr.isatty():  # a line a round in place of the bar
        logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    own = parsed(settings, "--set")
    stopped = "Stopped. What was reached is kept: the same command goes on from there."
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
            "Lower local.lr, or set local.clip: docs/one-run.md, What goes wrong."
        )


def snakemake(experiment: str, profile: str, options: Sequence[str]) -> list[str]:
    """The command that makes all results of an experiment; options: further words for Snakemake."""
    config, words = f"experiments=[{experiment}]", [part for word in options for part in _apart(word)]
    if flags := [place for place, word in enumerate(words) if word in ("--config", "-C")]:
        words.insert(flags[-1] + 1, config)  # Snakemake listens to the last one alone
        words = ["--profile", profile, *words]
    else:
        words = ["--config", config, "--profile", profile, *words]
    return [sys.executable, "-m", "snakemake", *words]


def to_its_end(words: Sequence[str], root: Path) -> int:
    """Run a command in `root` and wait for its end, whatever signal comes; returns its exit status.

    A terminal sends Ctrl-C to the command as well, which decides what it means. SIGTERM and SIGHUP may come
    to this process alone, and are passed on.
    """
    signals: list[int] = []
    child: subprocess.Popen[bytes] | None = None

    def heed(number: int, frame: FrameType | None) -> None:
        if number != signal.SIGINT:
            signals.append(number)
            if child:
                child.send_signal(number)

    # A function, not SIG_IGN, which the command would inherit; what nohup ignores stays ignored.
    heeded = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {one: signal.signal(one, heed) for one in heeded if signal.getsignal(one) != signal.SIG_IGN}
    try:
        child = subprocess.Popen(words, cwd=root)
        for number in signals:  # that came while it was being started
            child.send_signal(number)
        return child.wait()
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


def _apart(word: str) -> list[str]:
    """`--config=pack=2` and `-Cpack=2` as two words, every other as it is."""
    for flag, joined in (("--config", "--config="), ("-C", "-C")):
        if word.startswith(joined) and word != flag:
            return [flag, word.removeprefix(joined)]
    return [word]
