# One offline page for an experiment; for all of params.yaml: results/report/all/index.html, which links to the scorecard. It links to the
# figures' files, so these come first.


rule report:
    input:
        lambda wildcards: [path for experiment in with_compared(wildcards) for path in collected(experiment)],
        lambda wildcards: [str(WORKSPACE.figures(experiment)) for experiment in reported(wildcards)],
        lambda wildcards: [f"experiments/{experiment}.yaml" for experiment in reported(wildcards)],
        lambda wildcards: [str(WORKSPACE.scorecard)] if wildcards.set == "all" else [],
        PUBLISHED,
    output:
        "results/report/{set}/scores.json",
        "results/report/{set}/curves.csv",
        report(
            "results/report/{set}/index.html",
            caption="../report/page.rst",
            category="{set}",
            labels={"result": "report"},
        ),
    log:
        "logs/report/{set}.log",
    benchmark:
        "logs/report/{set}.tsv"
    wildcard_constraints:
        set="|".join(map(re.escape, ["all", *WITH_TABLES])),
    params:
        names=lambda wildcards: shlex.join(reported(wildcards)),
        shown=lambda wildcards: sha256(repr([ANALYSIS, *map(key_of, reported(wildcards))])),
    message:
        "rule report: {wildcards.set}"
    shell:
        "exec python -m fedshift report {params.names} --set {wildcards.set:q} > {log:q} 2>&1"


rule scorecard:
    input:
        [str(WORKSPACE.tables(experiment) / "table.csv") for experiment in WITH_TABLES],
        PUBLISHED,
    output:
        "results/scorecard.md",
        report(str(WORKSPACE.scorecard), caption="../report/scorecard.rst", labels={"result": "scorecard"}),
    log:
        "logs/scorecard.log",
    params:
        shown=sha256(repr([ANALYSIS, *map(key_of, WITH_TABLES)])),
    message:
        "rule scorecard: of the requested experiments"
    shell:
        "exec python -m fedshift scorecard --written > {log} 2>&1"
