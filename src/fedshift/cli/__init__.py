"""The command line. Each command is imported when it is called."""

import importlib
import io
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from fedshift.common.errors import FedshiftError, nearest
from fedshift.common.version import __version__

GROUPS = {
    "Train": {
        "run": "Run an experiment: train its runs, build its tables, figures and report.",
        "train": "Train one method on one data set, in this process.",
        "compare": "Compare methods on one data set, for example your own images.",
        "plan": "Show the runs of experiments, what is left to do and what it costs.",
        "status": "Count finished, archived, running, failed and missing runs.",
    },
    "Results": {
        "table": "Show and write an experiment's tables.",
        "rank": "Rank methods across data sets and held-out domains.",
        "figure": "Plot an experiment's figures.",
        "report": "Write one offline HTML page about experiments.",
    },
    "Trained networks": {
        "predict": "Predict the classes of new images with the network of a run.",
        "export-model": "Export the network of a run to TorchScript, ONNX or safetensors.",
    },
    "Set-up": {
        "list": "List methods, models, data sets, metrics, experiments and more.",
        "fetch": "Get raw images or pretrained weights, or show where to get them.",
        "new": "Write a skeleton of a method, data set, metric and more, with its test.",
        "doctor": "Check this machine, its cluster, images and weights.",
    },
}
MORE = {
    "scorecard": "Count published numbers and claims by verdict, for every paper.",
    "evaluate": "Compute confusions, scores or features from the saved weights of runs.",
    "reproduce": "Train an archived run again and compare it with the archive.",
    "tune": "Choose an experiment's settings by validation, from the runs of its tuning.",
    "archive": "Store in git what finished runs measured, check it, or compare with it.",
    "pull": "Get finished results from the DVC remote.",
    "track": "Publish runs in MLflow, once or during training.",
    "gc": "Find, and delete on request, runs that nothing needs.",
}
STEPS = {  # called by the workflow
    "verify": "Check raw images against their manifest.",
    "prepare": "Decode raw images once into a memory map.",
    "partition": "Assign every image to a client, and to training, validation or test.",
    "train-pack": "Train planned runs, each once.",
    "collect": "Gather the metrics of an experiment's runs.",
}
VERBS = {name: text for group in (*GROUPS.values(), MORE, STEPS) for name, text in group.items()}
MODULES = {  # of commands that share one with another command
    **dict.fromkeys(("table", "rank", "figure", "report", "scorecard", "tune"), "results"),
    "export-model": "predict", "status": "plan", "reproduce": "archive", "partition": "prepare",
}  # fmt: skip


class Verbs(click.Group):
    """A group that lists commands without importing them and reports user errors without a traceback."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*VERBS]  # `list` is a module here once it is imported

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        python = cmd_name.replace("-", "_")
        name = python if cmd_name in MODULES else "command"
        module = importlib.import_module(f"fedshift.cli.{MODULES.get(cmd_name, python)}")
        command: click.Command = getattr(module, name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in VERBS:
            ctx.fail(f"No such command '{args[0]}'. {nearest(args[0], VERBS)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, commands in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([*commands.items()])
        for title, commands in (("More", MORE), ("Steps of the workflow", STEPS)):
            with formatter.section(title):
                formatter.write_text(", ".join(commands))

    def main(self, *args: Any, **options: Any) -> Any:
        """Run click's main, with its errors in fedshift's form."""
        called: Callable[..., Any] = super().main
        options["prog_name"] = "fedshift"  # also for `python -m fedshift`
        if not options.pop("standalone_mode", True):
            return called(*args, standalone_mode=False, **options)
        try:
            sys.exit(called(*args, standalone_mode=False, **options) or 0)
        except click.ClickException as error:
            click.echo(f"error: {error.format_message()}", err=True)
            if isinstance(error, click.UsageError) and error.ctx:
                click.echo(f"  See: {error.ctx.command_path} --help", err=True)
            sys.exit(error.exit_code)
        except click.Abort:
            click.echo("Aborted!", err=True)
            sys.exit(1)

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except FedshiftError as error:
            if not ctx.obj.reference.is_dir():
                where = f"{ctx.obj.root.absolute()} is not a checkout of fedshift"
                click.echo(f"error: {where}: cd to one, or fedshift --root CHECKOUT COMMAND.", err=True)
            click.echo(f"error: {error}", err=True)
            ctx.exit(2)
        except OSError as error:
            from fedshift.common.files import cure_of

            if not (mend := cure_of(error)):
                raise
            click.echo(f"error: {error.filename or 'the disk'}: {error.strerror}\n  {mend}", err=True)
            ctx.exit(2)


@click.command(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--root",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="Project folder, a checkout of fedshift.  [default: this folder, or the nearest parent that is one]",
)
@click.version_option(__version__, prog_name="fedshift")
@click.pass_context
def main(ctx: click.Context, root: Path | None) -> None:
    """Federated learning under domain shift: published experiments, rerun and compared."""
    from fedshift.common import registry
    from fedshift.common.processes import spare_home
    from fedshift.storage.workspace import Workspace, project_folder

    _any_terminal()
    if root is None and (found := project_folder()) != Path():
        click.echo(f"project folder: {found.resolve()}", err=True)
        root = found
    root = root or Path()
    spare_home(root)
    registry.use(root)
    ctx.obj = Workspace(root)


def _any_terminal() -> None:
    """Read and write UTF-8 in any locale, also in jobs; print escapes where the terminal has no character."""
    if sys.getfilesystemencoding().lower() != "utf-8":
        words = [sys.executable, *sys.orig_argv[1:]]
        os.execve(sys.executable, words, os.environ | {"PYTHONUTF8": "1"})  # settled when Python starts
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
