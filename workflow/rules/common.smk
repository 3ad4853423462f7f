# What the plan says, and the functions that rules ask. It decides everything: which runs, in which packs, on which data,
# for which experiments.
import functools
import os
import re
import shlex
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

from snakemake.exceptions import WorkflowError

SOURCES = str(Path(workflow.basedir) / "src")
sys.path.insert(0, SOURCES)
from fedshift.common.errors import FedshiftError
from fedshift.common.files import date_today, is_whole, sha256
from fedshift.storage.packstamp import stamp_finished
from fedshift.planning import hashes, job, planfile
from fedshift.planning.attempts import Attempts, evaluations_of
from fedshift.planning.cluster import Cluster, most_minutes
from fedshift.planning.request import Request
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


def the_plan():
    """The plan's path: in a job the one that it was started with, else the one of this request, made if absent or not to be relied on."""
    given = os.environ.get("FEDSHIFT_PLAN")
    if given and not workflow.is_main_process:
        return Path(given)
    request = Request.of(config, WORKSPACE.root)
    path = planfile.last(WORKSPACE, request)
    if path is None or request.rerun == "version":
        chosen = ["--pack", str(request.pack), "--device", request.device, "--rerun", request.rerun]
        chosen += ["--parallel", str(request.parallel), "--hours", str(request.hours)]
        chosen += ["--minutes", str(request.minutes)]
        chosen += request.experiments
        if subprocess.run([sys.executable, "-m", "fedshift", "plan", *chosen], stdout=sys.stderr).returncode:
            raise WorkflowError("There is no plan, so there is nothing to run: mend what is said above.")
        path = planfile.last(WORKSPACE, request)
    os.environ.update(FEDSHIFT_PLAN=str(path.absolute()))
    return path


RUNS, CELLS, EVALUATIONS = [], [], []
IMAGES, RUN, CHOICES, COMPARED = {}, {}, {}, {}
PACKS = defaultdict(list)


def take(path):
    """Make a plan the one that all functions here ask. What was asked for of an earlier one must be in it."""
    runs = planfile.runs(path)
    if {run.name for run in RUNS} - {run.name for run in runs}:
        raise WorkflowError(
            "What was planned has been edited while this ran. Run the same command again: it goes on from here."
        )
    RUNS[:], CELLS[:], EVALUATIONS[:] = runs, planfile.cells(path), planfile.evaluations(path)
    IMAGES.update({images.prepared: images for images in planfile.images(path)})
    RUN.update({run.digest: run for run in RUNS})
    COMPARED.update(planfile.compared(path))
    CHOICES.update({choosing.experiment: choosing for choosing in planfile.choices(path)})
    PACKS.clear()
    for run in RUNS:
        PACKS[run.pack].append(run)
    if (
        workflow.is_main_process
    ):  # no job is spent on a stamp that was deleted, and one is on a run that was torn
        packs = (
            (WORKSPACE.pack(pack), [WORKSPACE.run_at(run.directory) for run in runs])
            for pack, runs in PACKS.items()
        )
        stamp_finished(
            (stamp, runs)
            for stamp, runs in packs
            if not is_whole(stamp.path) or any(run.torn for run in runs)
        )
        # What a machine with a wrong clock has written.
        made = [WORKSPACE.results / kind for kind in ("packs", "metrics", "tuning", "tables", "figures")]
        for folder in [*made, WORKSPACE.experiments, WORKSPACE.reference]:
            for path in folder.rglob("*"):
                date_today(path)
        for images in IMAGES:
            date_today(WORKSPACE.root / images)
        for images in filter(of_the_users, IMAGES.values()):
            from fedshift.spec import RunSpec
            from fedshift.training.provide import trained_on

            if runs := [run for run in RUNS if run.prepared == images.prepared]:
                spec = RunSpec.model_validate_json(runs[0].spec)
                trained_on(WORKSPACE, spec, *(WORKSPACE.run_at(run.directory) for run in runs))


def of_the_users(images):
    """Whether images are of a tree that the user may change: their list lies beside it, not in the project."""
    raw = WORKSPACE.raw(images.dataset, images.release)
    return raw.with_name(f"{raw.name}.manifest.json") in WORKSPACE.manifests()


try:
    OURS = Cluster.read(WORKSPACE.root)
    CLUSTER = OURS.resources
    if "--unlock" in sys.argv:  # frees the folder and asks for no run: nothing is planned or read
        REQUEST = Request.of(config, WORKSPACE.root)
    else:
        PLAN = the_plan()
        REQUEST = planfile.request(WORKSPACE, PLAN)
        take(PLAN)
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


def at_once(wildcards):
    return min(REQUEST.parallel, len(PACKS[wildcards.pack]))


def gpus(wildcards):
    """A GPU for a job that computes on one; none where it asks the cluster for a part of one (`gres`)."""
    # non_local_exec is known when a job is made, not while this file is read
    shared = "gres" in GPU and workflow.non_local_exec
    return int(REQUEST.device == "cuda" and not shared)


@functools.cache
def partition_minutes():
    """The partition's limit, asked once, where jobs go to Slurm."""
    on_slurm = workflow.non_local_exec and not workflow.dryrun
    return most_minutes(CLUSTER.get("slurm_partition")) if on_slurm else None


def ended(name, attempt):
    """How the jobs of a pack, or of an experiment's evaluations, have ended; on the first attempt of this start none is counted."""
    if attempt == 1:
        return 0, 0
    counts = Attempts.read(WORKSPACE.attempts(name)).settled()
    return min(attempt - 1, counts.late), min(attempt - 1, counts.killed)


def runtime(wildcards, attempt):
    late, _ = ended(wildcards.pack, attempt)
    return job.minutes(PACKS[wildcards.pack], REQUEST.parallel, REQUEST.hours, late, partition_minutes())


def mem_mb(wildcards, attempt):
    _, starved = ended(wildcards.pack, attempt)
    return job.mem_mb(PACKS[wildcards.pack], REQUEST.parallel, starved)


def results_of(experiment):
    tables = WORKSPACE.tables(experiment)
    page = WORKSPACE.report(experiment) / "index.html"
    targets = [tables / "table.csv", tables / "check.passed", WORKSPACE.figures(experiment), page]
    targets += [tables / "searched.csv", tables / "chosen.md"] if experiment in TUNED else []
    return [str(path) for path in targets]


def collected(experiment):
    """What was collected of all of an experiment's runs, with the mark that it was: what `fedshift collect` writes by hand, of the archive
    or of half of the runs, lacks it, and is no reason not to train."""
    metrics = WORKSPACE.metrics(experiment)
    return [str(metrics), str(metrics.with_suffix(".collected"))]


def cells_of(wildcards):
    return [cell for cell in CELLS if cell.experiment == wildcards.experiment]


def stamps(cells):
    return sorted({str(WORKSPACE.pack(RUN[cell.digest].pack).path) for cell in cells})


def packs_of(wildcards):
    tuned(wildcards.experiment)
    return stamps(cells_of(wildcards))


def runs_of(wildcards):
    """Hash of the experiment's runs: others are other results, whatever the times of the files say; tables tell whose code made them."""
    runs = [(cell.label, cell.axes, RUN[cell.digest]) for cell in cells_of(wildcards)]
    return sha256(repr([(label, axes, run.name, run.of_other_code) for label, axes, run in runs]))


def evaluated_cells(wildcards):
    """The experiment's cells whose runs are evaluated, one for each thing that is computed of it: its adapted rows, and all runs by each
    of its evaluations."""
    cells, asked = cells_of(wildcards), [one for one in EVALUATIONS if one.experiment == wildcards.experiment]
    runs = [cell._replace(adaptation=one.task) for one in asked for cell in cells if not cell.adaptation]
    return [cell for cell in cells if cell.adaptation] + runs


def runs_to_evaluate(wildcards):
    return [RUN[cell.digest] for cell in evaluated_cells(wildcards)]


def minutes_to_evaluate(wildcards, attempt):
    late, _ = ended(evaluations_of(wildcards.experiment), attempt)
    return job.evaluating(runs_to_evaluate(wildcards), REQUEST.hours, late, partition_minutes())


def mem_mb_to_evaluate(wildcards, attempt):
    _, starved = ended(evaluations_of(wildcards.experiment), attempt)
    return job.mem_mb(runs_to_evaluate(wildcards), 1, starved)


def evaluated_of(wildcards):
    """Where the results come together, if there are any to come."""
    tuned(wildcards.experiment)
    return [str(WORKSPACE.evaluated(wildcards.experiment))] if evaluated_cells(wildcards) else []


def tasks_of(wildcards):
    """Hash of what is computed how: of which runs, by which evaluations with their parameters, and the code that does it."""
    return sha256(
        repr([(RUN[cell.digest].name, cell.label, cell.adaptation) for cell in evaluated_cells(wildcards)])
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
