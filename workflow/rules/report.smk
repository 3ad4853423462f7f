# One offline page for an experiment; for all of params.yaml: results/report/all/index.html.


rule report:
    input:
        lambda wildcards: [str(WORKSPACE.metrics(experiment)) for experiment in reported(wildcards)],
        lambda wildcards: [f"experiments/{experiment}.yaml" for experiment in reported(wildcards)],
        PUBLISHED,
    output:
        "results/report/{set}/scores.json",
        report(
            "results/report/{set}/index.html",
            caption="../report/page.rst",
            category="{set}",
            labels={"result": "interactive report"},
        ),
    log:
        "logs/report/{set}.log",
    wildcard_constraints:
        set="|".join(["all", *REQUEST.experiments]),
    params:
        names=lambda wildcards: shlex.join(reported(wildcards)),
        shown=lambda wildcards: sha256(repr([ANALYSIS, *map(key_of, reported(wildcards))])),
    shell:
        "exec python -m fedshift report {params.names} --set {wildcards.set} > {log} 2>&1"
