# Test-time adaptation of finished runs, one job for all that an experiment's `adapt` asks for; without it, no job. A change of what
# is adapted how, or of the code that does it, trains nothing. Results below results/adapted/ are never declared: they stay.


rule adapt:
    input:
        lambda wildcards: stamps(adapted_by(wildcards)),
        lambda wildcards: data_for(runs_to_adapt(wildcards)),
    output:
        "results/metrics/{experiment}.adapted.json",
    log:
        "logs/adapt/{experiment}.log",
    threads: 1
    resources:
        **CLUSTER,
        mem_mb=lambda wildcards, attempt: job.mem_mb(runs_to_adapt(wildcards), 1, attempt),
        runtime=lambda wildcards, attempt: job.adapting(runs_to_adapt(wildcards), REQUEST.hours, attempt),
        gpu=int(REQUEST.device == "cuda"),
    params:
        tasks=tasks_of,
    shell:
        "exec python -m fedshift adapt --experiment {wildcards.experiment} --threads {threads} > {log} 2>&1"
