"""The command line: one verb for each step on the way of the data, imported only when it is called."""

import importlib
import io
import os
import sys
from pathlib import Path

import click

from fedshift.common.errors import FedshiftError, nearest
from fedshift.common.version import __version__

GROUPS = {
    "Train": {
        "run": "Make all results of one experiment with Snakemake, or train one run of a method.",
        "compare": "Train methods alike on one data set, your own too; ends with their table.",
        "plan": "Expand experiments to runs: what there is to do and what it costs.",
        "status": "Count finished, running, failed, interrupted and missing runs.",
        "reproduce": "Train an archived run again and compare it with the archive.",
    },
    "Look at results": {
        "table": "Write an experiment's tables.",
        "figure": "Plot an experiment's figures.",
        "rank": "Rank methods across (data set, held-out domain) blocks.",
        "report": "Write tables, curves, costs and provenance of experiments as one offline page.",
        "scorecard": "Count published numbers, comparisons and sentences by verdict, for every paper.",
        "export": "Write an experiment's tables as LaTeX.",
        "evaluate": "Compute from the saved weights of finished runs: confusions, scores, features ..",
    },
    "Use a trained network": {
        "predict": "Predict the classes of new images with the trained network of a run.",
        "export-model": "Export the trained network of a run: TorchScript, ONNX or safetensors.",
    },
    "Images and definitions": {
        "list": "List what there is: methods, models, data sets, metrics, experiments and more.",
        "fetch": "Get raw images or published weights, or say where to get them.",
        "new": "Write a method, data set, experiment, metric or figure to start from, with its test.",
        "tune": "Choose an experiment's settings by validation, from the runs of its tuning.",
        "doctor": "Check this machine, its cluster, images and weights; say what to do.",
    },
    "Share and store": {
        "archive": "Save in git what finished runs measured, check it, or compare runs with it.",
        "pull": "Get finished results from the DVC remote, so that nothing is trained again.",
        "track": "Publish runs in MLflow, once or while they are trained.",
        "gc": "Find, and delete on request, runs that no experiment needs any more.",
    },
}
STEPS = {  # of the workflow; people rarely call them
    "verify": "Check raw images against their manifest.",
    "prepare": "Decode raw images once into a memory map.",
    "partition": "Give every sample to a client, and to train, validation or test.",
    "train": "Train planned runs, each once.",
    "collect": "Gather the metrics of an experiment's runs.",
}
VERBS = {name: text for group in (*GROUPS.values(), STEPS) for name, text in group.items()}
MODULES = dict.fromkeys(("table", "rank", "export", "figure", "report"), "results") | {
    "export-model": "predict"
}


class Verbs(click.Group):
    """Lists its verbs without importing them; shows mistakes of the user without a traceback."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        name = cmd_name.replace("-", "_") if cmd_name in MODULES else "command"
        module = importlib.import_module(f"fedshift.cli.{MODULES.get(cmd_name, cmd_name)}")
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
                formatter.write_dl(list(commands.items()))
        with formatter.section("Steps of the workflow"):
            formatter.write_text(", ".join(STEPS))

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except FedshiftError as error:
            if not ctx.obj.reference.is_dir():
                where = f"{ctx.obj.root.absolute()} is no checkout of fedshift"
                click.echo(f"error: {where}: cd to one, or fedshift --root CHECKOUT VERB.", err=True)
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
    help="The project folder, a checkout of fedshift.  [default: the present folder, or the first above it "
    "that is one]",
)
@click.version_option(__version__, prog_name="fedshift")
@click.pass_context
def main(ctx: click.Context, root: Path | None) -> None:
    """Federated learning under domain shift: published experiments beside their printed numbers."""
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
    """Read and write file names and files as UTF-8 whatever the locale says, in jobs too, and print what the
    terminal cannot show as an escape.
    """
    if sys.getfilesystemencoding().lower() != "utf-8":
        words = [sys.executable, *sys.orig_argv[1:]]
        os.execve(sys.executable, words, os.environ | {"PYTHONUTF8": "1"})  # settled when Python starts
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
