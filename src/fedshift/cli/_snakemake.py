"""Shared by the verbs that start Snakemake."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

import click

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
