# Which targets there are. What must be done for them the plan says: workflow/rules/common.smk.
# The user's snakemake parses all of this once, every Slurm job twice: nothing heavy is imported.


configfile: "params.yaml"


report: "workflow/report/workflow.rst"


include: "workflow/rules/common.smk"


wildcard_constraints:
    experiment="|".join(
        map(re.escape, [*REQUEST.experiments, *(experiment + TUNING for experiment in TUNED)])
    ),


localrules:
    all,
    images,
    partitions,
    metrics,
    verify,
    collect,
    choose,
    searched,
    table,
    figure,
    check,
    report,
    scorecard,


include: "workflow/rules/data.smk"
include: "workflow/rules/train.smk"
include: "workflow/rules/tune.smk"
include: "workflow/rules/evaluate.smk"
include: "workflow/rules/analysis.smk"
include: "workflow/rules/report.smk"
include: "workflow/rules/tracking.smk"
include: "workflow/rules/unlisted.smk"
include: "workflow/rules/failures.smk"


rule all:
    default_target: True
    input:
        [results_of(experiment) for experiment in REQUEST.experiments],


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
