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
from fedshift.planning import hashes, job, nodes, planfile
from fedshift.planning.changed import changed, warnings
from fedshift.planning.cluster import Cluster, limits
from fedshift.planning.request import Request
from fedshift.planning.settle import restore_pulled, settle
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
        chosen += ["--minutes", str(request.minutes)]
        chosen += request.experiments
        if subprocess.run([sys.executable, "-m", "fedshift", "plan", *chosen], stdout=sys.stderr).returncode:
            raise WorkflowError("There is no plan, so there is nothing to run: mend what is said above.")
        path = planfile.last(WORKSPACE, request)
    else:  # a new plan has told it
        for line in warnings(changed(WORKSPACE, planfile.runs(path))):
            print(line, file=sys.stderr)
    os.environ.update(FEDSHIFT_PLAN=str(path.absolute()))
    return path


class OnDemand(dict):
    """Parts of the plan by name; one that is not there is read. A job of a cluster reads those that it needs."""

    def __init__(self, read):
        self.read = read

    def __missing__(self, name):
        self[name] = self.read(name)
        return self[name]


EVALUATIONS, IMAGES, CHOICES, COMPARED = [], {}, {}, {}
PACKS = OnDemand(lambda pack: planfile.runs(PLAN, pack=pack))
CELLS = OnDemand(lambda experiment: planfile.cells(PLAN, experiment))
RUN = OnDemand(lambda digest: planfile.runs(PLAN, digest=digest)[0])


def take(path):
    """Make a plan the one that all functions here ask. What was asked for of an earlier one must be in it."""
    global PLAN
    PLAN = path
    EVALUATIONS[:] = planfile.evaluations(path)
    IMAGES.update({images.prepared: images for images in planfile.images(path)})
    COMPARED.update(planfile.compared(path))
    CHOICES.update({choosing.experiment: choosing for choosing in planfile.choices(path)})
    if workflow.is_main_process:
        runs, cells = planfile.runs(path), planfile.cells(path)
        if {run.digest for run in RUN.values()} - {run.digest for run in runs}:
            raise WorkflowError(
                "What was planned has been edited while this ran. Run the same command again: it resumes."
            )
        RUN.update({run.digest: run for run in runs})
        PACKS.clear()
        for run in runs:
            PACKS.setdefault(run.pack, []).append(run)
        CELLS.clear()
        for cell in cells:
            CELLS.setdefault(cell.experiment, []).append(cell)
        settle(WORKSPACE, runs, cells)
        # What a machine with a wrong clock has written.
        results = [WORKSPACE.results / kind for kind in ("packs", "metrics", "tuning", "tables", "figures")]
        for folder in [*results, WORKSPACE.experiments, WORKSPACE.reference]:
            for made in folder.rglob("*"):
                date_today(made)
        for images in IMAGES:
            date_today(WORKSPACE.root / images)
        for images in filter(of_the_users, IMAGES.values()):
            from fedshift.spec import RunSpec
            from fedshift.training.provide import trained_on

            if trained := [run for run in runs if run.prepared == images.prepared]:
                spec = RunSpec.model_validate_json(trained[0].spec)
                trained_on(WORKSPACE, spec, *(WORKSPACE.run_at(run.directory) for run in trained))


def read_again():
    """Report sick nodes, and check the data that runs of the plan found damaged; what is damaged is deleted, so that it is made again."""
    for what, cure in nodes.troubles(WORKSPACE):
        print(f"{what}\n  {cure}", file=sys.stderr)
    failures = ((run, WORKSPACE.run_at(run.directory).failure()) for run in RUN.values())
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
    if "--unlock" in sys.argv:  # frees the folder and asks for no run: nothing is planned or read
        REQUEST = Request.of(config, WORKSPACE.root)
    else:
        take(the_plan())
        REQUEST = planfile.request(WORKSPACE, PLAN)
        if workflow.is_main_process and not workflow.dryrun:
            read_again()
except FedshiftError as error:
    raise WorkflowError(str(error)) from None

os.environ.update(FEDSHIFT_DEVICE=REQUEST.device)  # what a job asked for it computes on
GPU = OURS.of_gpus(REQUEST.device)
TUNED = [experiment for experiment in REQUEST.experiments if experiment in CHOICES]
ANALYSIS = hashes.sources_key("analysis") + hashes.plugins_key()  # a plug-in may bring a metric or a figure


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
    tables = WORKSPACE.tables(experiment)
    page = WORKSPACE.report(experiment) / "index.html"
    targets = [tables / "table.csv", tables / "check.passed", WORKSPACE.figures(experiment), page]
    targets += [tables / "searched.csv", tables / "chosen.md"] if experiment in TUNED else []
    return [str(path) for path in (*targets, *marks(experiment))]


def marks(experiment):
    """The marks without which results of an experiment lack runs. Snakemake asks for a missing file only if it is
    wanted itself: not for the sake of a table that exists."""
    stages = [experiment + TUNING] if experiment in TUNED else []
    return [WORKSPACE.collected(name) for name in (*stages, experiment)]


def collected(experiment):
    """What was collected of all of an experiment's runs, with the mark that it was: what `fedshift collect` writes by hand, of the archive
    or of half of the runs, lacks it, and is no reason not to train."""
    return [str(WORKSPACE.metrics(experiment)), str(WORKSPACE.collected(experiment))]


def cells_of(wildcards):
    return CELLS[wildcards.experiment]


def stamps(runs):
    return sorted({str(WORKSPACE.pack(run.stamp).path) for run in runs})


def packs_of(wildcards):
    tuned(wildcards.experiment)
    return stamps(RUN[cell.digest] for cell in cells_of(wildcards))


def runs_of(wildcards):
    """Hash of the experiment's runs: others are other results, whatever the times of the files say; tables tell whose method has changed."""
    runs = [(cell.label, cell.axes, RUN[cell.digest]) for cell in cells_of(wildcards)]
    return sha256(repr([(label, axes, run.digest, run.code) for label, axes, run in runs]))


def evaluated_cells(wildcards):
    """The experiment's cells whose runs are evaluated, one for each thing that is computed of it: its adapted rows, and all runs by each
    of its evaluations."""
    cells, asked = cells_of(wildcards), [one for one in EVALUATIONS if one.experiment == wildcards.experiment]
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
    tuned(wildcards.experiment)
    return [str(WORKSPACE.evaluated(wildcards.experiment))] if evaluated_cells(wildcards) else []


def tasks_of(wildcards):
    """Hash of what is computed how: of which runs, by which evaluations with their parameters, version and file."""
    return sha256(
        repr([(RUN[cell.digest].digest, cell.label, cell.adaptation) for cell in evaluated_cells(wildcards)])
    )


def key_of(experiment):
    """Hash of what decides how an experiment's results are shown."""
    return hashes.inputs_key(WORKSPACE, Request((experiment,)))


def shown_by(wildcards):
    return sha256(ANALYSIS + key_of(wildcards.experiment))


def reported(wildcards):
    """The experiments on a report's page."""
    return REQUEST.experiments if wildcards.set == "all" else [wildcards.set]


def compared_by(wildcards):
    """Metrics of the other experiments of this plan that the experiment's claims compare with. What is not asked for is not run."""
    return [path for other in COMPARED.get(wildcards.experiment, ()) for path in collected(other)]


def with_compared(wildcards):
    """The experiments on a report's page, and those that their claims compare with."""
    names = reported(wildcards)
    return list(dict.fromkeys([*names, *(other for name in names for other in COMPARED.get(name, ()))]))


def tuned(experiment):
    """Before an experiment's final runs are asked for: wait for its choice, then take the plan that has them. In a job the choice was made."""
    if experiment in CHOICES and workflow.is_main_process:
        checkpoints.choose.get(tuned=experiment, key=CHOICES[experiment].key)
        if not CHOICES[experiment].made:
            take(the_plan())
            follow()


def beside_choice(wildcards, suffix):
    """What lies beside the choice: the points that were tried (.csv), the values that were chosen (.md)."""
    choice = WORKSPACE.choices(wildcards.tuned) / f"{CHOICES[wildcards.tuned].key}.json"
    return str(choice.with_suffix(suffix))


def tuning_of(wildcards):
    return collected(f"{wildcards.tuned}{TUNING}")


def runs_at(place):
    """The planned runs at, below or above a path, by their directories or their packs."""
    found = []
    for run in RUN.values():
        directory, stamp = Path(run.directory), WORKSPACE.pack(run.stamp).path
        if place in (directory, stamp, *directory.parents, *stamp.parents) or directory in place.parents:
            found.append(run)
    return found


def shown_at(place):
    """The experiments of which a path below results/ shows results, requested or not."""
    kind, _, rest = os.path.relpath(place, "results").partition("/")
    if kind.startswith("scorecard.") or (kind == "report" and rest.startswith("all/")):
        return [*REQUEST.experiments]
    if kind in ("tables", "figures", "report", "metrics"):
        files = [path.relative_to(WORKSPACE.experiments) for path in WORKSPACE.experiments.rglob("*.yaml")]
        names = [path.with_suffix("").as_posix() for path in files]
        named = [name for name in names if rest == name or rest.startswith((f"{name}/", f"{name}."))]
        return [max(named, key=len)] if named else []
    return []
