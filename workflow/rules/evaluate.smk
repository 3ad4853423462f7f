# What is computed of finished runs from their weights: one job for all that an experiment's `evaluations` and `adapt` ask for; without
# them, no job. A change of what is computed how, or of the code that does it, trains nothing. Single results lie in the runs'
# directories and are never declared: they stay.


rule evaluate:
    input:
        lambda wildcards: tuned(wildcards.experiment) or stamps(evaluated_cells(wildcards)),
        lambda wildcards: images_for(runs_to_evaluate(wildcards)),
    output:
        directory("results/metrics/{experiment}.evaluated"),
    log:
        "logs/evaluate/{experiment}.log",
    threads: 1
    resources:
        **CLUSTER,
        mem_mb=lambda wildcards, attempt: job.mem_mb(runs_to_evaluate(wildcards), 1, attempt - 1),
        runtime=lambda wildcards, attempt: job.evaluating(
            runs_to_evaluate(wildcards), REQUEST.hours, attempt, partition_minutes()
        ),
        gpu=int(REQUEST.device == "cuda"),
    params:
        tasks=tasks_of,
    shell:
        "exec python -m fedshift evaluate {wildcards.experiment} --threads {threads} > {log} 2>&1"
