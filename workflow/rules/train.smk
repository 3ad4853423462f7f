# One job per pack. Run directories are never declared: snakemake deletes what a failed job declares, checkpoints too.


def data_of(wildcards):
    members = PACKS[wildcards.pack]
    return ancient(sorted({run.prepared for run in members} | {run.partition for run in members}))


def runtime(wildcards, attempt):
    """Minutes: twice the estimate of what is planned, more on each further attempt."""
    return round(5 + 2 * attempt * sum(run.minutes for run in PACKS[wildcards.pack]))


rule train:
    input:
        data_of,
    output:
        "results/packs/{pack}.json",
    log:
        "logs/train/{pack}.log",
    wildcard_constraints:
        pack="[0-9a-f]{16}",
    threads: 1
    resources:
        mem_mb=lambda wildcards, attempt: attempt * max(run.mem_mb for run in PACKS[wildcards.pack]),
        disk_mb=lambda wildcards: sum(run.disk_mb for run in PACKS[wildcards.pack]),
        runtime=runtime,
        gpu=int(REQUEST.device == "cuda"),
    shell:
        # exec: without it the shell dies at SIGTERM and takes a checkpoint that is being written with it
        "{FEDSHIFT} train --plan {PLAN} --pack {wildcards.pack} --threads {threads} > {log} 2>&1"
