"""The commands that show collected results: table, rank, figure, report, scorecard, tune."""

import contextlib
import functools
import gc
import shutil
import sys
from collections.abc import Iterator, Sequence
from multiprocessing import parent_process
from pathlib import Path

import click
from tqdm import tqdm

from fedshift.analysis import latex, tables, tuning
from fedshift.analysis.collect import NothingFinished, collect
from fedshift.analysis.collected import ARCHIVE, Collected, is_there, lacking, read
from fedshift.analysis.coverage import numbers
from fedshift.analysis.notes import urgent
from fedshift.analysis.page import MARKS, terminal
from fedshift.analysis.scorecard import write as write_scorecard
from fedshift.archive import store
from fedshift.cli._options import experiment_argument, experiments_argument, json_option
from fedshift.cli.plan import read_request
from fedshift.common.errors import FedshiftError
from fedshift.common.processes import spread
from fedshift.experiments.column import column, quantity
from fedshift.experiments.expand import cells_of, planned
from fedshift.experiments.load import available, load
from fedshift.experiments.schema import Experiment
from fedshift.experiments.tuning import read_choice, tuned
from fedshift.spec import RunSpec
from fedshift.storage.rundir import State
from fedshift.storage.workspace import TUNING, Workspace


def collected_or_archived(workspace: Workspace, name: str) -> Collected:
    """The collected results of an experiment, collected first if they are not current.

    They are collected again if more runs are finished here or archived, if the experiment's file is newer, or
    if other code collected them. This is the case in a clone that has not collected yet, or has pulled since.
    Nothing is trained. Collected results stay if one of their runs is gone.

    Raises FedshiftError if there is nothing to show.
    """
    known = None
    if is_there(workspace, name) and not lacking(workspace, name):
        known, file = read(workspace, name), workspace.experiments / f"{name}.yaml"
        newer = file.exists() and file.stat().st_mtime > known.path.stat().st_mtime
        if not newer and not _has_more(workspace, known):
            return known
    try:
        collected = collect(workspace, name, known=known)
    except NothingFinished as error:
        raise NothingFinished(name, failed=error.failed, hints=[*_hints(workspace, name)]) from None
    if collected is known:
        stay = "results collected earlier are shown, as runs of theirs are no longer here"
        click.echo(f"{name}: {stay}. To show the present runs: fedshift collect {name}", err=True)
    return collected


def _hints(workspace: Workspace, name: str) -> Iterator[str]:
    """Hints for an experiment without results: its cost, and archived experiments of the same folder."""
    from fedshift.planning.costs import cost  # torch
    from fedshift.planning.progress import duration

    if name not in available(workspace):
        return
    with contextlib.suppress(FedshiftError):  # `fedshift plan` reports the error
        specs = [cell.spec for cell in planned(workspace, load(workspace, name)) if not cell.task]
        minutes = (sum(cost(workspace, spec, of).minutes for spec in specs) for of in ("cpu", "cuda"))
        cpu, gpu = (duration(60 * value) for value in minutes)
        yield f"Its {len(specs)} runs take {cpu} of a CPU core, or {gpu} of a GPU."
    folder = name.rpartition("/")[0]
    others = [other for other in available(workspace) if other.rpartition("/")[0] == folder != ""]
    others = [other for other in others if other != name]
    if archived := [other for other in others if shown_without_training(workspace, load(workspace, other))]:
        yield f"Archived and shown at once: {', '.join(archived)}."


def present(workspace: Workspace, names: Sequence[str]) -> list[Collected]:
    """The experiments among `names` that have results; the others are printed.

    Raises NothingFinished if none has.
    """
    found, errors = [], []
    for name in names:
        try:
            found.append(collected_or_archived(workspace, name))
        except NothingFinished as error:
            errors.append(error)
    if errors and not found:
        raise errors[0]
    for nothing in errors:
        click.echo(f"left out: {nothing}", err=True)
    return found


def _has_more(workspace: Workspace, known: Collected) -> bool:
    """Whether runs have been finished here, or archived, since an experiment was collected."""
    every = known.runs[known.runs["adaptation"].isna()]  # adaptations come with their runs
    missing, archived = every.loc[every["state"] != "finished", "run"], every[every["source"] == ARCHIVE]
    own = [*map(workspace.run_at, missing)]
    if (workspace.results / "runs").is_dir():  # an own run replaces the archived one
        runs = zip(archived["spec"].map(RunSpec.model_validate_json), archived["digest"], strict=True)
        own += [workspace.run(f"{spec.place}/{digest}") for spec, digest in runs]
    return (
        any(run.outcome() is State.FINISHED for run in own)
        or not all(workspace.run_at(run).summary_file.is_file() for run in archived["run"])  # removed since
        or bool(store.archived(workspace, missing))
    )


@click.command(
    "table",
    epilog="Examples: fedshift table hfedf/precision_photo; fedshift table demo --metric ece.ood; "
    "fedshift table hfedf/table2 --latex --published",
)
@experiment_argument
@click.option(
    "--metric",
    "metrics",
    multiple=True,
    metavar="METRIC.AGGREGATION",
    help="Only print the tables, with this metric: ece.ood, worst_class.id, accuracy.std "
    "(see fedshift list metrics).",
)
@click.option(
    "--notes", is_flag=True, help="Print the whole page: all rows, verdicts, comparisons and notes."
)
@click.option("--latex", "as_latex", is_flag=True, help="Write LaTeX (booktabs, siunitx) instead.")
@click.option("--published", is_flag=True, help="With --latex: also the published value and the verdict.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help="With --latex: output folder.  [default: results/export/EXPERIMENT]",
)
@json_option
@click.pass_obj
def table(
    workspace: Workspace, experiment: str, metrics: tuple[str, ...], notes: bool, as_latex: bool,
    published: bool, out: Path | None, as_json: bool,
) -> None:  # fmt: skip
    """Show EXPERIMENT's tables, ours next to the published values, and write them below results/tables/.
    Methods without a finished run are left out on the screen. Archived runs count, so a fresh clone shows
    tables without training.
    """
    for metric in metrics:
        if column(metric, "--metric").relative:
            what = f"'{metric}' is relative to a row, which the experiment's file names"
            raise FedshiftError("--metric", what, "Leave out `gain.` or `ratio.`.")
    collected = collected_or_archived(workspace, experiment)
    if metrics:
        click.echo(tables.with_metrics(workspace, collected, list(metrics)))
        return
    if not collected.experiment.tables:
        where, hint = f"experiments/{experiment}.yaml", "docs/write-an-experiment.md shows how to add one."
        if as_latex:
            raise FedshiftError(where, "declares no `tables`", hint)
        click.echo(f"{where} declares no `tables`: {hint}", err=True)
    if as_latex:
        for path in latex.write(workspace, collected, out or workspace.exported(experiment), published):
            click.echo(path)
        return
    page = tables.results(workspace, collected)
    stem = tables.write(workspace, collected, page)
    if as_json:
        click.echo(tables.long(stem).to_json(orient="records", indent=1, force_ascii=False))
    elif notes:
        click.echo(stem.with_suffix(".md").read_text(encoding="utf-8"))
    else:
        width = shutil.get_terminal_size((110, 24)).columns
        click.echo(f"{collected.experiment.title}\n\n{terminal(page['tables'], width)}\n")
        compared = f", {len(page['claims'])} comparisons" if page["claims"] else ""
        judged = [line for line in page["hypotheses"] if line[2]]
        for line in judged:
            click.echo(f"{line[4]}: {line[0]} on {line[1]}: {line[2]} ({line[3]} seeds)")
        if waiting := len(page["hypotheses"]) - len(judged):
            click.echo(f"{waiting} hypotheses have no seed with all its runs yet.")
        marked = [note for note in page["notes"] if note[0] in MARKS]
        click.echo("\n".join([*marked, *filter(None, urgent(collected))]))
        click.echo(f"All {len(page['notes'])} notes{compared}: --notes, or {stem.with_suffix('.md')}")


@click.command("rank")
@click.argument("experiments", nargs=-1, required=True, metavar="EXPERIMENT...")
@click.option("--metric", default="ood", show_default=True, metavar="METRIC.AGGREGATION", help="Ranked by.")
@click.option(
    "--against", default="", metavar="ROW", help="Compared with.  [default: fedavg, else the first]"
)
@click.pass_obj
def rank(workspace: Workspace, experiments: tuple[str, ...], metric: str, against: str) -> None:
    """Rank the methods of EXPERIMENTs by their mean over all data sets and held-out domains, with the worst
    domain.

    Shows which methods are distinguishable from fedavg, by differences with intervals that hold jointly at
    95%. Written to results/tables/<first EXPERIMENT>/ranks.csv and .md.
    """
    from fedshift.analysis import ranking

    quantity(metric, "--metric")
    collections = present(workspace, experiments)
    result = ranking.ranking(collections, metric, against)
    stem = ranking.write(workspace.tables(experiments[0]), result, metric)
    click.echo(stem.with_suffix(".md").read_text(encoding="utf-8"))
    click.echo(stem.with_suffix(".csv"))


@click.command("figure")
@experiment_argument
@click.option("--lenient", is_flag=True, hidden=True, help="For Snakemake: exit with 0 in any case.")
@click.pass_obj
def figure(workspace: Workspace, experiment: str, lenient: bool) -> None:
    """Plot the figures that EXPERIMENT lists below results/figures/ as SVG, PDF and PNG, with their values as
    CSV. A figure that the finished runs do not allow yet is left out, with the reason; where none can be
    plotted, exits with 2.
    """
    from fedshift.analysis.figures import draw

    undrawn: list[str] = []
    paths = draw.write(workspace, collected_or_archived(workspace, experiment), undrawn.append)
    for path in paths:
        click.echo(path)
    for line in undrawn:
        click.echo(line, err=True)
    if undrawn and not paths and not lenient:
        sys.exit(2)


@click.command("report")
@experiments_argument
@click.option("--set", "folder", help="The folder's name below results/report/.")
@click.pass_obj
def report(workspace: Workspace, names: tuple[str, ...], folder: str | None) -> None:
    """Write results/report/<set>/index.html of the finished and archived runs of experiments (default: those
    of params.yaml).

    <set> is --set, else the name of the only requested experiment or folder of experiments, else "all". The
    page needs no network.
    """
    from fedshift.analysis.report import write

    if folder and not workspace.report(folder).resolve().is_relative_to(workspace.report("").resolve()):
        raise FedshiftError("--set", f"'{folder}' is not below results/report", "Give a name: mine.")
    experiments = read_request(workspace, names).experiments
    present(workspace, experiments)
    single = [group[0] for group in (names, experiments) if len(group) == 1]
    click.echo(write(workspace, experiments, folder or (single[0] if single else "all")))


@click.command("scorecard", epilog="Example: fedshift scorecard")
@click.option(
    "--written", "written_alone", is_flag=True, help="Use existing tables only; build none from the archive."
)
@click.pass_obj
def scorecard(workspace: Workspace, written_alone: bool) -> None:
    """Write results/scorecard.html and .md: published numbers and claims by verdict, for every paper.

    Uses the tables of all experiments. Missing tables of experiments that are archived, or need no run, are
    written first.
    """
    unwritten = [] if written_alone else [*_unwritten(workspace)]
    # Planning is done in separate processes, as it loads torch, which the page does not need.
    with spread(len(unwritten)) as each:
        # All are collected before a table is made: claims compare with runs of other experiments.
        collected = each(functools.partial(_collected, workspace), unwritten)
        bar = tqdm(collected, "archived experiments", len(unwritten), disable=None if unwritten else True)
        names = [name for name, shown in zip(unwritten, bar, strict=True) if shown]
        published = each(numbers, [workspace])
        for page in each(functools.partial(_write, workspace), names):
            click.echo(page)
        known = next(iter(published))
    page = write_scorecard(workspace, known)
    click.echo(page.with_suffix(".md").read_text(encoding="utf-8").split("\n\n")[1])
    click.echo(page)


def _collected(workspace: Workspace, name: str) -> bool:
    """Collect an experiment if that needs no training; returns whether it does not."""
    if parent_process():  # a worker, which lasts seconds, of which this would take an eighth
        gc.disable()
    if shown := shown_without_training(workspace, load(workspace, name)):
        collected_or_archived(workspace, name)
    return shown


def _write(workspace: Workspace, name: str) -> Path:
    """Write the tables of a collected experiment."""
    return tables.write(workspace, read(workspace, name)).with_suffix(".md")


def _unwritten(workspace: Workspace) -> Iterator[str]:
    """Experiments with tables or claims of which none is written."""
    for name in available(workspace) if workspace.archive.is_dir() else ():
        experiment = load(workspace, name)
        if (experiment.tables or experiment.claims) and not workspace.tables(name).exists():
            yield name


def shown_without_training(workspace: Workspace, experiment: Experiment) -> bool:
    """Whether an experiment needs no run, or has an archived one.

    For a tuned experiment, only runs with settings that its search has chosen count. Resolving a spec takes
    long, so only those are resolved with an archived run of their data set, method, target and seed.
    """
    if not experiment.train:
        return True
    choice = None
    if experiment.tune:
        if not workspace.tuned(experiment.name).is_file():
            return False
        choice = read_choice(workspace, experiment.name)

    def has_neighbours(spec: RunSpec) -> bool:
        return bool(store.within(workspace.archive / spec.place))

    cells = cells_of(workspace, experiment, choice, has_neighbours, built=False)
    return any(store.paths(workspace, cell.spec.run_name) for cell in cells)


@click.command("tune", epilog="Example: fedshift tune unified/tuned")
@experiment_argument
@click.pass_obj
def tune(workspace: Workspace, experiment: str) -> None:
    """Choose the settings of EXPERIMENT by validation, from the finished runs of its search (`fedshift run
    EXPERIMENT.tuning`).

    Writes reference/presets/tuned/EXPERIMENT.yaml, which the final runs use: commit it (docs/tuning.md).
    """
    declared = load(workspace, experiment)
    tuned(declared)  # raises an error where it is not
    path = tuning.write(workspace, declared, collect(workspace, experiment + TUNING))
    click.echo(tuning.page(read_choice(workspace, experiment)))
    click.echo(path)
