# One job per pack. Run directories are never declared: snakemake deletes what a failed job declares, checkpoints too.


def data_of(wildcards):
    members = PACKS[wildcards.pack]
    return ancient(sorted({run.prepared for run in members} | {run.partition for run in members}))


def at_once(wildcards):
    return min(REQUEST.parallel, len(PACKS[wildcards.pack]))


def runtime(wildcards, attempt):
    """Minutes: twice the estimate of what is planned, more on each further attempt."""
    minutes = [run.minutes for run in PACKS[wildcards.pack]]
    return round(5 + 2 * attempt * max(max(minutes), sum(minutes) / at_once(wildcards)))


def mem_mb(wildcards, attempt):
    """The runs that train at once, the process that starts them, and the two of Snakemake that a Slurm job carries."""
    return 500 + attempt * at_once(wildcards) * max(run.mem_mb for run in PACKS[wildcards.pack])


rule train:
    input:
        data_of,
    output:
        "results/packs/{pack}.json",
    log:
        "logs/train/{pack}.log",
    wildcard_constraints:
        pack="[0-9a-f]{16}",
    threads: at_once  # --set-threads train=N gives each run its even share
    resources:
        **CLUSTER,
        mem_mb=mem_mb,
        disk_mb=lambda wildcards: sum(run.disk_mb for run in PACKS[wildcards.pack]),
        runtime=runtime,
        gpu=int(REQUEST.device == "cuda"),
    shell:
        # exec: without it the shell dies at SIGTERM and takes a checkpoint that is being written with it
        "{FEDSHIFT} train --plan {PLAN} --pack {wildcards.pack} --threads {threads} "
        "--parallel {REQUEST.parallel} > {log} 2>&1"
