# One job per pack. Run directories are never declared: snakemake deletes what a failed job declares, checkpoints too.


rule train:
    input:
        lambda wildcards: images_for(PACKS[wildcards.pack]),
    output:
        "results/packs/{dataset}/{method}/{pack}.json",
    log:
        "logs/train/{dataset}/{method}/{pack}.log",
    benchmark:
        "logs/train/{dataset}/{method}/{pack}.tsv"
    wildcard_constraints:
        dataset="[^/]+",
        method="[^/]+",
        pack="[0-9a-f]{16}",
    threads: at_once  # --set-threads train=N gives each run its even share
    resources:
        **CLUSTER,
        **GPU,
        gpu=gpus,
        mem_mb=mem_mb,
        disk_mb=lambda wildcards: job.disk_mb(PACKS[wildcards.pack], REQUEST.parallel),
        runtime=runtime,
        runs=REQUEST.parallel,
    message:
        "rule train: {TITLE:{wildcards.pack}} (pack {wildcards.dataset}/{wildcards.method}/{wildcards.pack})"
    shell:
        # exec: without it the shell dies at SIGTERM and takes a checkpoint that is being written with it.
        # The plan is the one that FEDSHIFT_PLAN names.
        "exec python -m fedshift train-pack --pack {wildcards.pack} --threads {threads} "
        "--parallel {resources.runs} > {log:q} 2>&1"
