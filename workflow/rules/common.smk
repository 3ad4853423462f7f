# What the plan says, and the functions that rules ask. It decides everything: which runs, in which packs, on which data,
# for which experiments.
import functools
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

from snakemake.exceptions import WorkflowError
from snakemake.utils import update_config

SOURCES = str(Path(workflow.basedir) / "src")
sys.path.insert(0, SOURCES)
from fedshift.common.errors import FedshiftError
from fedshift.common.files import date_today, sha256
from fedshift.common.yaml_file import read
from fedshift.planning import cluster, job, planfile
from fedshift.planning.cluster import Cluster, limits
from fedshift.planning.request import Request
from fedshift.planning.settle import changed, restore_pulled, settle, warnings
from fedshift.storage.workspace import TUNING, Workspace

WORKSPACE = Workspace(Path())  # so that rules see paths below the folder in which they run
# Jobs say `python`: the interpreter that runs this, with the sources beside this. Its path is in no rule, so that another one
# re-runs nothing.
BIN = str(Path(sys.executable).parent)
# Before all: Slurm's commands that bear with a controller that is away.
PATIENT = str(Path(workflow.basedir) / "workflow" / "slurm")
os.environ.update(
    PATH=os.pathsep.join([PATIENT, BIN, *filter(None, [os.environ.get("PATH")])]),
    PYTHONPATH=os.pathsep.join([SOURCES, *filter(None, [os.environ.get("PYTHONPATH")])]),
)


def configure():
    """params.yaml, then the files of --configfile, then --config. `configfile:` would read 010 as 8."""
    config.clear()
    for file in (Path("params.yaml"), *workflow.overwrite_configfiles):
        update_config(config, read(file) if file.is_file() else {})
    update_config(config, workflow.config_settings.config)


def the_plan():
    """The plan's path: in a job the one that it was started with, else the one of this request, made if absent or not to be relied on."""
    given = os.environ.get("FEDSHIFT_PLAN")
    if given and not workflow.is_main_process:
        return Path(given)
    request = Request.of(config, WORKSPACE.root)
    restore_pulled(WORKSPACE)
    path = planfile.last(WORKSPACE, request)
    if path is None:
        chosen = ["--pack", str(request.pack), "--device", request.device]
        chosen += ["--parallel", str(request.parallel), "--hours", str(request.hours)]
        chosen += ["--minutes", str(request.minutes), "--graph", request.graph]
        chosen += request.experiments
        if subprocess.run([sys.executable, "-m", "fedshift", "plan", *chosen], stdout=sys.stderr).returncode:
            raise WorkflowError("There is no plan, so there is nothing to run: fix what is reported above.")
        path = planfile.last(WORKSPACE, request)
    else:  # a new plan has told it
        for line in warnings(changed(WORKSPACE, planfile.runs(path))):
            print(line, file=sys.stderr)
    os.environ.update(FEDSHIFT_PLAN=str(path.absolute()))
    return path


def start():
    """Let files agree with the plan and with this machine's clock, before anything is asked of them."""
    settle(WORKSPACE, PLAN.runs, PLAN.cells)
    results = [WORKSPACE.results / kind for kind in ("packs", "metrics", "tables", "figures")]
    for folder in [*results, WORKSPACE.experiments, WORKSPACE.reference]:
        for made in folder.rglob("*"):
            date_today(made)
    for images in PLAN.images:
        date_today(WORKSPACE.root / images.prepared)
    for images in filter(of_the_users, PLAN.images):
        from fedshift.spec import RunSpec
        from fedshift.training.provide import trained_on

        if trained := [run for run in PLAN.runs if run.prepared == images.prepared]:
            spec = RunSpec.model_validate_json(trained[0].spec)
            trained_on(WORKSPACE, spec, *(WORKSPACE.run_at(run.directory) for run in trained))


def read_again():
    """Report sick nodes and runs that failed for good; what runs of the plan found damaged is deleted, so that it is made again."""
    for what, cure in cluster.troubles(WORKSPACE):
        print(f"{what}\n  {cure}", file=sys.stderr)
    failures = [(run, WORKSPACE.run_at(run.directory).failure()) for run in PLAN.runs]
    if final := sum(failure is not None and not failure["retry"] for _, failure in failures):
        what = f"{final} run{'s' * (final > 1)} failed before and will not be tried again: fedshift status says why"
        print(f"{what}; to train them anew: fedshift plan --retry-failed", file=sys.stderr)
    damaged = [run for run, failure in failures if failure and failure["kind"] == "Damaged"]
    if damaged:
        from fedshift.spec import RunSpec
        from fedshift.training.provide import remove_damaged

        for run in {(run.prepared, run.partition): run for run in damaged}.values():
            for path in remove_damaged(WORKSPACE, RunSpec.model_validate_json(run.spec)):
                print(f"{path} was damaged, and is made again.", file=sys.stderr)


def of_the_users(images):
    """Whether images are of a tree that the user may change: their list lies beside it, not in the project."""
    raw = WORKSPACE.raw(images.dataset, images.release)
    return raw.with_name(f"{raw.name}.manifest.json") in WORKSPACE.manifests()


try:
    configure()
    OURS = Cluster.read(WORKSPACE.root)
    CLUSTER = OURS.resources
    REQUEST, PLAN = Request.of(config, WORKSPACE.root), planfile.Plan({}, [], [], [])
    if "--unlock" not in sys.argv:  # which frees the folder and asks for no run
        path = the_plan()
        REQUEST, PLAN = planfile.request(WORKSPACE, path), planfile.load(path)
        if workflow.is_main_process:
            start()
            if not workflow.dryrun:
                read_again()
except FedshiftError as error:
    raise WorkflowError(str(error)) from None
except KeyboardInterrupt:
    raise WorkflowError("Stopped before any job was started. Type the same command to go on.") from None

RUN = {run.digest: run for run in PLAN.runs}
PACKS, CELLS = {}, {experiment: [] for experiment in REQUEST.experiments}
for run in PLAN.runs:
    PACKS.setdefault(run.pack, []).append(run)
for cell in PLAN.cells:
    CELLS[cell.experiment].append(cell)
IMAGES = {images.prepared: images for images in PLAN.images}
WITH_TABLES = [name for name in REQUEST.experiments if not name.endswith(TUNING)]
os.environ.update(FEDSHIFT_DEVICE=REQUEST.device)  # what a job asked for it computes on
GPU = OURS.of_gpus(REQUEST.device)
# Plug-ins may bring metrics and figures.
ANALYSIS = planfile.sources_key("analysis") + planfile.plugins_key()


def images_of(wildcards):
    return IMAGES[str(WORKSPACE.prepared(wildcards.recipe))]


def images_for(runs):
    """Images, whose content hashes guard them; partitions are made by the jobs that lack them."""
    return ancient(sorted({run.prepared for run in runs}))


class Title:
    """What a pack trains, for the message of its job: `{TITLE:{wildcards.pack}}`. In `params` a new wording would
    make every pack again."""

    def __format__(self, pack):
        return job.title(PACKS[pack])


TITLE = Title()


def at_once(wildcards):
    return min(REQUEST.parallel, len(PACKS[wildcards.pack]))


def gpus(wildcards):
    """A GPU for a job that computes on one; none where it asks the cluster for a part of one (`gres`)."""
    # non_local_exec is known when a job is made, not while this file is read
    shared = "gres" in GPU and workflow.non_local_exec
    return int(REQUEST.device == "cuda" and not shared)


@functools.cache
def most():
    """The partition's limits, minutes and MB, asked once, where jobs go to Slurm."""
    on_slurm = workflow.non_local_exec and not workflow.dryrun
    return limits(CLUSTER.get("slurm_partition")) if on_slurm else (None, None)


def runtime(wildcards, attempt):
    return job.minutes(PACKS[wildcards.pack], REQUEST.parallel, REQUEST.hours, attempt, most()[0])


def mem_mb(wildcards, attempt):
    return job.mem_mb(PACKS[wildcards.pack], REQUEST.parallel, attempt, most()[1])


def results_of(experiment):
    if experiment not in WITH_TABLES:
        return collected(experiment)
    tables = WORKSPACE.tables(experiment)
    page = WORKSPACE.report(experiment) / "index.html"
    targets = [tables / "table.csv", WORKSPACE.figures(experiment), page]
    return [str(path) for path in (*targets, WORKSPACE.collected(experiment))]


def collected(experiment):
    """What was collected of all of an experiment's runs, with the mark that it was: what `fedshift collect` writes by hand, of the archive
    or of half of the runs, lacks it, and is no reason not to train."""
    return [str(WORKSPACE.metrics(experiment)), str(WORKSPACE.collected(experiment))]


def stamps(runs):
    return sorted({str(WORKSPACE.pack(run.stamp).path) for run in runs})


def packs_of(wildcards):
    return stamps(RUN[cell.digest] for cell in CELLS[wildcards.experiment])


def runs_of(wildcards):
    """Hash of the experiment's runs: others are other results, whatever the times of the files say; tables tell whose method has changed."""
    runs = [(cell.label, cell.axes, RUN[cell.digest]) for cell in CELLS[wildcards.experiment]]
    return sha256(repr([(label, axes, run.digest, run.code) for label, axes, run in runs]))


def evaluated_cells(wildcards):
    """The experiment's cells whose runs are evaluated, one for each thing that is computed of it: its adapted rows, and all runs by each
    of its evaluations."""
    cells = CELLS[wildcards.experiment]
    asked = [one for one in PLAN.evaluations if one.experiment == wildcards.experiment]
    runs = [cell._replace(adaptation=one.task) for one in asked for cell in cells if not cell.adaptation]
    return [cell for cell in cells if cell.adaptation] + runs


def runs_to_evaluate(wildcards):
    return [RUN[cell.digest] for cell in evaluated_cells(wildcards)]


def minutes_to_evaluate(wildcards, attempt):
    return job.evaluating(runs_to_evaluate(wildcards), REQUEST.hours, attempt, most()[0])


def mem_mb_to_evaluate(wildcards, attempt):
    return job.mem_mb(runs_to_evaluate(wildcards), 1, attempt, most()[1])


def evaluated_of(wildcards):
    """Where the results come together, if there are any to come."""
    return [str(WORKSPACE.evaluated(wildcards.experiment))] if evaluated_cells(wildcards) else []


def tasks_of(wildcards):
    """Hash of what is computed how: of which runs, by which evaluations with their parameters, version and file."""
    return sha256(
        repr([(RUN[cell.digest].digest, cell.label, cell.adaptation) for cell in evaluated_cells(wildcards)])
    )


def key_of(experiment):
    """Hash of what decides how an experiment's results are shown."""
    return planfile.inputs_key(WORKSPACE, Request((experiment,)))


def shown_by(wildcards):
    return sha256(ANALYSIS + key_of(wildcards.experiment))


def reported(wildcards):
    """The experiments on a report's page."""
    return WITH_TABLES if wildcards.set == "all" else [wildcards.set]


def compared_by(wildcards):
    """Metrics of the other experiments of this plan that the experiment's claims compare with. What is not asked for is not run."""
    return [path for other in PLAN.compared.get(wildcards.experiment, ()) for path in collected(other)]


def with_compared(wildcards):
    """The experiments on a report's page, and those that their claims compare with."""
    names = reported(wildcards)
    return list(dict.fromkeys([*names, *(other for name in names for other in PLAN.compared.get(name, ()))]))


def runs_at(place):
    """The planned runs at, below or above a path, by their directories or their packs."""
    found = []
    for run in PLAN.runs:
        directory, stamp = Path(run.directory), WORKSPACE.pack(run.stamp).path
        if place in (directory, stamp, *directory.parents, *stamp.parents) or directory in place.parents:
            found.append(run)
    return found


def shown_at(place):
    """The experiments of which a path below results/ shows results, requested or not."""
    kind, _, rest = os.path.relpath(place, "results").partition("/")
    if kind.startswith("scorecard.") or (kind == "report" and rest.startswith("all/")):
        return WITH_TABLES
    if kind in ("tables", "figures", "report", "metrics"):
        files = [path.relative_to(WORKSPACE.experiments) for path in WORKSPACE.experiments.rglob("*.yaml")]
        names = [*(path.with_suffix("").as_posix() for path in files), *REQUEST.experiments]
        named = [name for name in names if rest == name or rest.startswith((f"{name}/", f"{name}."))]
        return [max(named, key=len)] if named else []
    return []
