# One offline page for an experiment; for all of params.yaml: results/report/all/index.html.


def reported(wildcards):
    return REQUEST.experiments if wildcards.set == "all" else [wildcards.set]


def key_of(experiment):
    """Hash of what decides how an experiment's results are shown."""
    return planfile.inputs_key(ROOT, planfile.Request((experiment,)))


rule report:
    input:
        lambda wildcards: [f"results/metrics/{experiment}.parquet" for experiment in reported(wildcards)],
        lambda wildcards: [f"experiments/{experiment}.yaml" for experiment in reported(wildcards)],
        PUBLISHED,
    output:
        "results/report/{set}/scores.json",
        report(
            "results/report/{set}/index.html",
            caption="../report/page.rst",
            category="{set}",
            labels={"what": "interactive report"},
        ),
    log:
        "logs/report/{set}.log",
    wildcard_constraints:
        set="|".join(["all", *REQUEST.experiments]),
    params:
        names=lambda wildcards: shlex.join(reported(wildcards)),
        shown=lambda wildcards: sha256(repr([ANALYSIS, *map(key_of, reported(wildcards))])),
    shell:
        "{FEDSHIFT} report {params.names} --set {wildcards.set} > {log} 2>&1"
