# The plan decides everything: which runs, in which packs, on which data, for which experiments.
# The user's snakemake parses this file once, every Slurm job twice: nothing heavy is imported.
import json
import os
import shlex
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import yaml
from snakemake.exceptions import WorkflowError

SOURCES = str(Path(workflow.basedir) / "src")
sys.path.insert(0, SOURCES)
from fedshift import planfile
from fedshift.errors import FedshiftError
from fedshift.files import sha256


configfile: "params.yaml"


report: "workflow/report/workflow.rst"


ROOT = Path.cwd()
FEDSHIFT = f"exec {shlex.quote(sys.executable)} -m fedshift"
os.environ["PYTHONPATH"] = os.pathsep.join([SOURCES, *filter(None, [os.environ.get("PYTHONPATH")])])


def the_plan(request):
    """The plan's path: in a job the one that it was started with, else the one of this request, made if absent."""
    if given := os.environ.get("FEDSHIFT_PLAN"):
        planfile.check(ROOT, Path(given), request)
        return given
    path = planfile.location(ROOT, request)
    if not path.is_file():
        chosen = ["--pack", str(request.pack), "--device", request.device]
        chosen += ["--parallel", str(request.parallel), *request.experiments]
        if subprocess.run([sys.executable, "-m", "fedshift", "plan", *chosen], stdout=sys.stderr).returncode:
            raise WorkflowError("There is no plan, so there is nothing to run: mend what is said above.")
    os.environ["FEDSHIFT_PLAN"] = str(path)
    return str(path)


def the_cluster():
    """What this cluster calls things: resources of the Slurm plugin by name. A copy of slurm/cluster.example.yaml."""
    path = Path("slurm/cluster.yaml")
    return (yaml.safe_load(path.read_text()) or {}) if path.is_file() else {}


CLUSTER = the_cluster()
try:
    REQUEST = planfile.Request.of(config)
    PLAN = the_plan(REQUEST)
    RUNS = planfile.runs(Path(PLAN))
    CELLS = planfile.cells(Path(PLAN))
    IMAGES = {images.prepared: images for images in planfile.images(Path(PLAN))}
except FedshiftError as error:
    raise WorkflowError(str(error)) from None

PACKS = defaultdict(list)
for run in RUNS:
    PACKS[run.pack].append(run)
RUN = {run.digest: run for run in RUNS}
PARTITIONED = {run.partition: run for run in RUNS}


wildcard_constraints:
    experiment="|".join(REQUEST.experiments),


localrules:
    all,
    partitions,
    metrics,
    verify,
    partition,
    collect,
    table,
    figure,
    check,
    report,


include: "workflow/rules/data.smk"
include: "workflow/rules/train.smk"
include: "workflow/rules/analysis.smk"
include: "workflow/rules/report.smk"
include: "workflow/rules/tracking.smk"


rule all:
    default_target: True
    input:
        [results_of(experiment) for experiment in REQUEST.experiments],


rule partitions:
    input:
        [run.partition for run in RUNS],


rule metrics:
    input:
        [f"results/metrics/{experiment}.parquet" for experiment in REQUEST.experiments],


if "demo" in REQUEST.experiments:

    localrules:
        demo,

    rule demo:
        input:
            results_of("demo"),
