"""`fedshift run`: one experiment from images to tables and figures, by Snakemake."""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

import click

from fedshift.cli._options import complete, experiments
from fedshift.common.errors import FedshiftError
from fedshift.common.registry import names
from fedshift.storage.workspace import Workspace

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


@click.command(
    epilog="Examples: fedshift run demo; fedshift run hfedf/table2 --profile slurm; fedshift run demo -n"
)
@click.argument("name", metavar="EXPERIMENT", shell_complete=complete(experiments))
@profile_option
@click.option("-n", "--dry-run", is_flag=True, help="Show what would run, and start nothing.")
@click.option("-j", "--cores", type=click.IntRange(min=1), help="CPU cores to use.  [default: the profile's]")
@snakemake_arguments
@click.pass_obj
def command(
    workspace: Workspace, name: str, profile: str, dry_run: bool, cores: int | None, options: tuple[str, ...]
) -> None:
    """Run EXPERIMENT: train its runs and build its tables, figures and report. Finished work is skipped.

    Arguments after `--` are passed to Snakemake: options, or targets such as
    `fedshift run demo -- results/tables/demo/table.csv`. To train one method, see `fedshift train`.
    """
    _known(workspace, name)
    os.chdir(workspace.root)
    own = [*(["--dry-run"] if dry_run else []), *([f"--cores={cores}"] if cores else [])]
    words = snakemake(name, profile, [*own, *options])
    os.execv(words[0], words)  # in its place: Ctrl-C and the exit status are Snakemake's own


def _known(workspace: Workspace, name: str) -> None:
    """Reject an unknown experiment with the nearest names. For a method, show how to train it."""
    from fedshift.cli.plan import read_request

    try:
        read_request(workspace, (name,))
    except FedshiftError as error:
        if name in names("methods"):
            cure = f"To train it: fedshift train {name} --data digits"
            raise FedshiftError(error.where, f"'{name}' is a method, not an experiment", cure) from None
        raise


def snakemake(experiment: str, profile: str, options: Sequence[str]) -> list[str]:
    """The Snakemake command for all results of an experiment; `options`: more arguments for Snakemake."""
    config, words = f"experiments=[{experiment}]", [part for word in options for part in _apart(word)]
    if flags := [place for place, word in enumerate(words) if word in ("--config", "-C")]:
        words.insert(flags[-1] + 1, config)  # Snakemake uses the last one only
        words = ["--profile", profile, *words]
    else:
        words = ["--config", config, "--profile", profile, *words]
    return [sys.executable, "-m", "snakemake", *words]


def to_its_end(words: Sequence[str], root: Path) -> int:
    """Run a command in `root` and wait for its end, whatever signal comes; return its exit status.

    A terminal sends Ctrl-C to the command as well, which decides how to react. SIGTERM and SIGHUP may come to
    this process alone, and are passed on.
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
    """`--config=pack=2` and `-Cpack=2` as two words; any other word unchanged."""
    for flag, joined in (("--config", "--config="), ("-C", "-C")):
        if word.startswith(joined) and word != flag:
            return [flag, word.removeprefix(joined)]
    return [word]
