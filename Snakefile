# Which targets there are. What must be done for them the plan says: workflow/rules/common.smk.
# The user's snakemake parses all of this once, every Slurm job twice: nothing heavy is imported.


from snakemake.utils import min_version

min_version("9.20")


# Used with `--sdm apptainer` only: docs/cluster.md, Containers and conda.
container: "fedshift.sif"


report: "workflow/report/workflow.rst"


include: "workflow/rules/common.smk"
include: "workflow/rules/process.smk"


wildcard_constraints:
    experiment="|".join(map(re.escape, REQUEST.experiments)),


localrules:
    all,
    images,
    partitions,
    metrics,
    verify,
    collect,
    table,
    figure,
    report,
    scorecard,


include: "workflow/rules/data.smk"
include: "workflow/rules/train.smk"
include: "workflow/rules/evaluate.smk"
include: "workflow/rules/analysis.smk"
include: "workflow/rules/report.smk"
include: "workflow/rules/tracking.smk"
include: "workflow/rules/targets.smk"
include: "workflow/rules/progress.smk"
include: "workflow/rules/failures.smk"


onstart:
    heed_signals()  # Snakemake has just set its own handler of SIGTERM, which waits for the end of all jobs
    follow()
    show_progress()


onsuccess:
    end_progress()
    name_undrawn()
    if workflow.is_main_process and say_failures():
        say_status()
        raise WorkflowError("Results are without the runs that failed.")


rule all:
    default_target: True
    input:
        [results_of(experiment) for experiment in REQUEST.experiments],
    message:
        "rule all: every requested result"


rule images:
    input:
        sorted(IMAGES),


rule metrics:
    input:
        [path for experiment in REQUEST.experiments for path in collected(experiment)],


if "demo" in REQUEST.experiments:

    localrules:
        demo,

    rule demo:
        input:
            results_of("demo"),
