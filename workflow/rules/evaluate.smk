# What is computed of finished runs from their weights: one job for all that an experiment's `evaluations` and `adapt` ask for; without
# them, no job. A change of what is computed how, or of the code that does it, trains nothing. Single results lie in the runs'
# directories and are never declared: they stay.


rule evaluate:
    input:
        lambda wildcards: stamps(runs_to_evaluate(wildcards)),
        lambda wildcards: images_for(runs_to_evaluate(wildcards)),
    output:
        directory("results/metrics/{experiment}.evaluated"),
    log:
        "logs/evaluate/{experiment}.log",
    benchmark:
        "logs/evaluate/{experiment}.tsv"
    threads: 1
    resources:
        **CLUSTER,
        **GPU,
        gpu=gpus,
        mem_mb=mem_mb_to_evaluate,
        runtime=minutes_to_evaluate,
    params:
        tasks=tasks_of,
    message:
        "rule evaluate: {wildcards.experiment}"
    shell:
        "exec python -m fedshift evaluate {wildcards.experiment:q} --threads {threads} > {log:q} 2>&1"
